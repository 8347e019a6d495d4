"""Target topics, their settings and ACLs, kept in step with the source's.

Which topics are copied, the plan that creates and changes them, deletions, other writers of a copy, and
previews of all that. No record is copied here; the rules that need no cluster are in :mod:`drkit.topology`.
"""
