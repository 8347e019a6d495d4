"""Security settings of a cluster, from Kafka's property names to what Python needs.

JAAS texts, key stores, TLS and SASL settings, and tokens from an OAuth endpoint. No connection to a broker
is made here; secrets are never logged.
"""
