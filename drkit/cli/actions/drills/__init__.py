"""The work of the drill commands: choose a drill, run it, show its report.

Nothing is judged here, and no cluster is asked here.
"""
