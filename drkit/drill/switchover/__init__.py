"""Switchover drills: production is moved to the target and brought home by the failover service.

Nothing here judges what a drill has recorded, or resumes a run that is held.
"""
