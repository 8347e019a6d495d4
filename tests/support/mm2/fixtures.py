"""Kafka's Java classes, for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.mm2.mm2_java import KafkaJava, kafka_java


@pytest.fixture(scope="session")
def java() -> Iterator[KafkaJava]:
    """One JVM: to start it and to load its classes costs more than what the tests do with it."""
    with kafka_java() as made:
        yield made
