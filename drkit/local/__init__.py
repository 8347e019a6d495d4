"""Real Kafka clusters as processes of this machine, and TCP links that can be cut.

Jars, Java, brokers, certificates, a primary/standby pair and the proxies between them, for `drkit local`,
the demonstration and tests. No data of a user's own cluster is touched, and replication is not known here.
"""
