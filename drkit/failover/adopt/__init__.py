"""`drkit control adopt`: signs what a pair of clusters wrote before it had a control key.

Topics are read, refused or signed as a whole. No failover runs here, and no record's meaning changes.
"""
