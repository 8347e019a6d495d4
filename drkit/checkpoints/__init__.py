"""Checkpoint rounds: groups of the source read, translated, and written to the target.

What a round looks at, the work of one shard, what is remembered between rounds, and their summary. Spark is
not imported: rounds are run as jobs by :mod:`drkit.spark`.
"""
