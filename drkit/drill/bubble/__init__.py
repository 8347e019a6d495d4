"""Bubbles: failovers of reserved topics and groups between the clusters of production, beside it.

Nothing here judges what a bubble has recorded, or keeps its report.
"""
