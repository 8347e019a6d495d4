"""The loss: exact where the source answers, bounded where it does not.

The gap between the copy and the source's end, records without a copy, and divergence once the old primary
is back. Nothing here writes; whether a loss is acceptable is decided by :mod:`drkit.failover.checks`.
"""
