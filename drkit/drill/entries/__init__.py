"""The entries of drills: on the target of each flow and on this machine, and what they owe.

Nothing here runs or judges a drill.
"""
