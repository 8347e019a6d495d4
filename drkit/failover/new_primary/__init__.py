"""What is done on the new primary while no other cluster has what clients write.

Its settings are changed only where a person has asked for it, and put back. The old primary may be away.
"""
