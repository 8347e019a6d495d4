"""Empties partitions of an old primary, so that they hold only what is copied to them again.

Emptying by DeleteRecords, the proof that it still holds, and what compacted topics need for it. It may
not decide when a partition is emptied, nor prove what must hold before: :mod:`drkit.failover.returning` does.
"""
