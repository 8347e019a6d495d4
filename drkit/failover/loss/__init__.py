"""What is lost, counted: exact where the source answers, bounded where it does not.

It counts the gap between the copy and the source's end, records without a copy, and divergence once the old
primary is back. It writes nothing. :mod:`drkit.failover.checks` decides whether a loss is acceptable.
"""
