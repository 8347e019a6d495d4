"""Spark: its session, settings, workers, slots and jobs.

Whatever is shipped to workers is shipped from here, and errors of Spark and py4j become drkit's. Besides
the replicator's entries, no other room imports pyspark or py4j.
"""
