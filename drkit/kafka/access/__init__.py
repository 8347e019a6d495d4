"""ACLs of a cluster, and what drkit's own principal may do there.

ACLs are listed, created and deleted; permissions are asked without doing what they permit. Which ACLs a
flow needs or copies is not decided here.
"""
