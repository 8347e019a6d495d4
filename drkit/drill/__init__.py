"""Drills: rehearsals of a failover on the clusters of a flow, with a verdict and a report.

A drill never takes the journal, lease, endpoint or fence of production. The kinds `readiness` and
`translation` only read; a bubble records what it makes, and proves that nothing of it is left. The judge is
pure and works on recorded evidence: a report can be judged again.
"""
