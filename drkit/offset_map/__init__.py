"""The offset-map topic on the target: one reader, one way to settle it against the target's log.

Whoever asks where a partition is (copy, checkpoints, status, verify, translate, failover) asks here, and gets
an exact answer or :class:`drkit.offsets.Unavailable` with the reason. What the records mean is in
:mod:`drkit.offsets`, without input or output; who writes them is the copy task's matter.
"""
