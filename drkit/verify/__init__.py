"""`drkit verify`: source and target compared record by record, in a Spark batch job.

A snapshot of both clusters, ranges for the tasks, the comparison of one range, and the report. Only `run`
knows Spark; nothing is repaired here.
"""
