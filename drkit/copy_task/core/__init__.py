"""What the parts of a copy task share: assignment, connections, partitions, and the writer of the offset map.

`partition` holds one partition's cursor and state without input or output; `context` holds connections,
signals and counters. Nothing here fetches or appends records.
"""
