"""`drkit replicate`: flows from their configuration to running epochs.

Checks before the start, one supervised job per flow with its lease, plan and epochs, and what runs beside
the copy; for chaos scenarios and tests also a replicator of one process without Spark. No record is copied
here: that is done in :mod:`drkit.copy_task`, and what Spark needs is in :mod:`drkit.spark`.
"""
