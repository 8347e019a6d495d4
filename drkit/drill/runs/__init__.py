"""Runs of drills: collect the evidence, judge it, keep the report, and start what is due.

Reports and due times are files in the drill folder of this machine. What is collected and how it is judged is
not decided here. Nothing here writes to a cluster.
"""
