"""`drkit translate`: the exact position of a group, an offset or a Spark query on the other cluster.

Answers come from the offset map and the target alone where the source does not answer. Nothing is committed
here, and Spark is not started to rewrite its checkpoint folders.
"""
