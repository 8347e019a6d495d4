"""The story of drkit on two local clusters, in acts.

The stage, the actors and the proof that both clusters are equal at the end. It uses what users use; nothing
of drkit depends on it.
"""
