"""One view of a pair of clusters from both directions: the active side, the writable sides, the newest term.

A state topic has the decisions of one direction, as of the last answer of its cluster; the other direction
may have decided since. All decisions about roles go through this package. It asks clusters only for the
opposite flow's state; all else here is pure.
"""
