"""Offsets that a group commits without having joined: its coordinator may just be starting."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.waiting import eventually

COORDINATOR_MOVES: Final = frozenset({
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
})  # fmt: skip
"""A client that has joined tries again by itself; a commit alone does not."""


def commit(consumer: Consumer, *offsets: TopicPartition) -> None:
    """Commit offsets, also while the coordinator of a new cluster reads its log."""

    def committed() -> bool:
        try:
            consumer.commit(offsets=list(offsets), asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_MOVES:
                raise
            return False
        return True

    eventually(committed, what="coordinator of the group")
