"""Kafka requests that kafka-python does not know, in the notation of Kafka's own message definitions.

JSON files only, one for each request and each response. No code lives here.
"""
