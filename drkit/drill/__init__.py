"""Drills: rehearsals of a failover on the clusters of a flow, with a verdict.

The plan of a drill, when drills are due, the bubble with its record and cleanup, and inventories of clusters. A
drill never takes the journal, lease, endpoint or fence of production.
"""
