"""Chaos scenarios: a failover or a return on a local pair, with clients at work and a fault at a named step.

The scenario is a file in Chaos Toolkit's format; its verdict comes from pure checks over a recorded history.
Nothing here changes a cluster that it did not start, and no wall clock triggers a fault.
"""
