"""The offset-map topic on the target: one reader, one way to settle it against the target's log.

All that ask where a partition is (copy, checkpoints, status, verify, translate, failover) ask here, and get
an exact answer or :class:`drkit.offsets.Unavailable` with the reason. What the records mean is not decided
here but in :mod:`drkit.offsets`. The copy task writes them, and before it a takeover or a turn, with which
the map of a partition begins.
"""
