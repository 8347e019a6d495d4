"""How far each partition is: on the target by its map and log, on the source by its batches.

Also what open transactions hold back, and who holds it. Figures only: what is a fault, and how it is shown,
is decided elsewhere.
"""
