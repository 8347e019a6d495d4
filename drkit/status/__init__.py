"""What is known of a flow at one moment, from any machine, whether the source answers or not.

One model for the command, metrics, live page and detection; collectors that ask both clusters; sums, groups
and readiness. Looking changes nothing on a cluster, and nothing here starts Spark.
"""
