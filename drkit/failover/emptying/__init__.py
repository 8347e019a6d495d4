"""Partitions of an old primary that are emptied, so that what is copied to them again stands alone there.

Emptying by DeleteRecords, the proof that it still holds, and what compacted topics need for it. It may
not decide when a partition is emptied, nor prove what must hold before: :mod:`drkit.failover.returning` does.
"""
