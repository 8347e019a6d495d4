"""The steps of a return after a switchover: the old primary becomes the standby of the new one.

The steps of the table :data:`drkit.failover.core.machine.RETURN`, the scope of a return, and
what waits for one. No record is copied here, and nothing is here that a switchover itself does: see
:mod:`drkit.failover.steps`. A parameter `topics` has their names on the old primary.
"""
