"""The replicators that are compared: each is started as its user would start it."""
