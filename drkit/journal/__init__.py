"""The journal of failovers: on the target, and as a file of the machine that works at one.

The table of steps, entries and their meaning in order, one reader for all rooms, and the epoch that shuts out
an older writer. How a step is carried out is not known here.
"""
