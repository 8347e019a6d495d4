"""The steps of a failback: the old primary becomes the standby of the new one.

The steps of the table :data:`drkit.journal.machine.RETURN`, the scope of a failback, and the topics
that wait for one. No record is copied here, and the steps of a switchover are in
:mod:`drkit.failover.steps`. A parameter `topics` has their names on the old primary.
"""
