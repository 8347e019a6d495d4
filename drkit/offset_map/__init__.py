"""The offset-map topic on the target: reading it, and settling it against the target's log.

Every command that needs the position of a partition (copy, checkpoints, status, verify, translate, failover)
gets it here: an exact answer, or :class:`drkit.offsets.Unavailable` with the reason. The meaning of the
records is not decided here but in :mod:`drkit.offsets`. The copy task writes them; a takeover or a turn
writes the first ones of a partition.
"""
