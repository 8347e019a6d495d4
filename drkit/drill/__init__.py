"""Drills: rehearsals of a failover on the clusters of a flow, with a verdict.

The plan of a drill, when drills are due, and the bubble with its record, its inventories and its cleanup. A
drill never takes the journal, lease, endpoint or fence of production.
"""
