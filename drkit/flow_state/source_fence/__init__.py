"""What the runs of a flow have fenced on its source, and how they ended: kept on the source itself.

An abort needs no other cluster. May use a cluster, never a journal.
"""
