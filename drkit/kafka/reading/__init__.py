"""Reading topics with ordinary consumers: compacted topics, logs to their end, and record headers.

Consumers are given their partitions and never join a group. Nothing here writes, and what the records mean
is left to the caller.
"""
