"""Deleting topics by their ids (KIP-516): a later topic of the same name stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from kafka.protocol.admin import DeleteTopicsRequest

from drkit.kafka import codes
from drkit.kafka.raw import RawCluster

_TIMEOUT_MS: Final = 20_000
_ANSWER_MS: Final = 5_000
"""How much longer an answer may take than the brokers may."""


async def delete_topics_by_id(cluster: RawCluster, ids: Iterable[UUID]) -> dict[UUID, int]:
    """Delete topics; return Kafka's error codes, 0 also for a topic that was gone before.

    :raises RawError: no answer
    """
    wanted = list(ids)
    if not wanted:
        return {}
    topic = DeleteTopicsRequest.DeleteTopicState
    request = DeleteTopicsRequest(
        topics=[topic(name=None, topic_id=each) for each in wanted], timeout_ms=_TIMEOUT_MS, min_version=6
    )
    answer = await cluster.send(request, timeout_ms=_TIMEOUT_MS + _ANSWER_MS)
    found = {UUID(str(each.topic_id)): int(each.error_code) for each in answer.responses}
    return {each: 0 if found[each] == codes.UNKNOWN_TOPIC_ID else found[each] for each in wanted}
