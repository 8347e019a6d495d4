"""Drills: rehearsals of a failover on the clusters of a flow, with a verdict.

The plan of a drill, the settings under which a bubble runs, and when drills are due. A drill never takes the
journal, lease, endpoint or fence of production.
"""
