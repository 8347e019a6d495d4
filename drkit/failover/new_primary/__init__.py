"""Changes to the new primary while no other cluster has what clients write.

Its settings are changed only on request, and restored. The old primary may be away.
"""
