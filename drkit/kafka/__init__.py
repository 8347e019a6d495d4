"""Connections to a cluster: an admin client, raw requests, and Kafka's error codes by name.

`admin` and `topics` use confluent-kafka, `raw` and `requests` use kafka-python's protocol layer; both raise
drkit's own errors. What a flow is, or what its topics mean, is not known here.
"""
