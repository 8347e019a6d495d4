"""Is the primary lost? Rules, probes, and the topic in which observers exchange their findings.

The verdict is pure and takes facts only; probes ask a cluster and return facts. Nothing here acts on a
verdict.
"""
