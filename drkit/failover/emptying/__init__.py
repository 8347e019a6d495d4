"""Partitions of an old primary that are emptied, so that what is copied to them again stands alone there.

Emptying by DeleteRecords, the proof that it still holds, and what compacted topics need for it. Nothing
here decides when a partition is emptied, or proves what must be true before: see
:mod:`drkit.failover.returning`.
"""
