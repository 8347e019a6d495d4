"""Runs of drills: collect the evidence, judge it, keep the report, and start what is due.

What is collected and how it is judged is not decided here.
"""
