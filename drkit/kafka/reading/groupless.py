"""Consumers that are given their partitions: librdkafka wants a group all the same."""

from __future__ import annotations

from confluent_kafka import KafkaError


def is_passed_over(error: KafkaError) -> bool:
    """Whether a consumer without a group continues after this error.

    librdkafka needs a group's name and looks for its coordinator, which drkit does not use. If an authorizer
    does not allow that group, its refusal arrives between the records.
    """
    return bool(error.retriable()) or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
