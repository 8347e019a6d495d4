"""Kafka requests that kafka-python does not know, in the notation of Kafka's own message definitions."""
