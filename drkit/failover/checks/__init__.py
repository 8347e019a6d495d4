"""Checks before anything is changed: the survey, its refusals, and what a failover moves.

Scope, readiness of the target, roles, the decision and its evidence, and the table of refusals with their
runbooks. Checks change nothing.
"""
