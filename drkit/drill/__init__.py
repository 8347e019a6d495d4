"""Disaster-recovery drills on the clusters of a flow: what is asked, how it is judged, what is reported.

The judge is pure and works on recorded evidence, so a report can be judged again. The kinds `readiness` and
`translation` never write to a cluster, and nothing here joins a consumer group of production.
"""
