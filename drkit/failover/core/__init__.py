"""Shared parts of a failover: the interface of steps, and the context they work in.

Also the evidence that steps hand on, and what was read of the target so far. No step is implemented here,
and nothing changes a cluster.
"""
