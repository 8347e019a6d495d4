"""Chaos scenarios: a failover or a return on a local pair, with clients at work and a fault at a named step.

The scenario is a file in Chaos Toolkit's format; its verdict is that of `drkit.exercise`.
Nothing here changes a cluster that it did not start, and no wall clock triggers a fault.
"""
