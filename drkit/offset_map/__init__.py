"""The offset-map topic on the target: one reader, one way to settle it against the target's log.

All that ask where a partition is (copy, checkpoints, status, verify, translate, failover) ask here, and get
an exact answer or :class:`drkit.offsets.Unavailable` with the reason. What the records mean is not decided
here but in :mod:`drkit.offsets`; the copy task and a takeover write them.
"""
