"""MirrorMaker 2's own topics as drkit writes them: heartbeats, checkpoints and offset syncs.

The topics are created, written and read byte for byte as MirrorMaker 2's readers expect. Which positions
are right is decided by the offset map and by checkpoint rounds, not here.
"""
