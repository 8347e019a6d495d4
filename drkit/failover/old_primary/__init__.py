"""What is asked of an old primary that is back, and what is done to it.

Its identity, its fence, its retention, its readers, its guard, its emptied partitions, its missing topics.
Nothing here decides when: that is up to the steps of :mod:`drkit.failover.returning`. A
parameter `topics` has their names on the old primary.
"""
