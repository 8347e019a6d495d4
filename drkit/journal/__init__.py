"""The journal of failovers: on the target, and as a file of the machine that works at one.

Entries, their meaning in order, and the epoch that shuts out an older writer. What a step does is not known
here.
"""
