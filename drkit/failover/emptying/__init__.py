"""Partitions of an old primary that are emptied, so that what is copied to them again stands alone there.

Emptying by DeleteRecords, the proof that it still holds, and what compacted topics need for it. When a
partition is emptied, and what must be proven before, belongs to :mod:`drkit.failover.returning`.
"""
