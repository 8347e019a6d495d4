"""What drkit uses of confluent-kafka outside this package: clients, messages, and errors.

The one module to check when the library changes. `admin` and `topics` have the administration.
"""

from __future__ import annotations

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import NewPartitions, NewTopic

__all__ = [
    "TIMESTAMP_LOG_APPEND_TIME",
    "ConfluentPartition",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewPartitions",
    "NewTopic",
    "Producer",
]
