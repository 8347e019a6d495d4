"""A failover that is exercised: clients at work, commands that wait at each entry, a history, a verdict.

Chaos scenarios and drills use it. `history`, `checks` and `verdict` are pure but for the file of the
history; where the clusters come from, and what fails on them, is not known here.
"""
