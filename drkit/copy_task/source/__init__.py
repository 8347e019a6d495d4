"""The reading side of a copy task: fetch sessions, pace, leaders, and errors of source partitions.

Fetching hands batches on as bytes. What is written, and where, is not known here.
"""
