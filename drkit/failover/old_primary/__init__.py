"""Checks of an old primary that answers again, and changes to it.

Its identity, its fence, its retention, its readers, its guard, its emptied partitions, its missing topics.
Nothing here decides when they are used: the steps of :mod:`drkit.failover.returning` do. A parameter `topics`
has their names on the old primary.
"""
