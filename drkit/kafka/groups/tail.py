"""Finds the groups that have changed by reading ``__consumer_offsets``, instead of asking for each group.

``__consumer_offsets`` is a topic like any other for a principal that may READ it. One request to each broker
reads all commits since the last time, of any client and protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final
from uuid import UUID

from kafka.protocol.consumer.fetch import FetchRequest

from drkit.errors import NotAuthorized
from drkit.kafka import codes
from drkit.kafka.groups.asking import OFFSETS_TOPIC
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import LATEST, TopicMetadata, fetch_request, listed, metadata
from drkit.model import TopicPartition
from drkit.wire import CorruptBatch
from drkit.wire.group_log import GroupLog

_PARTITION_BYTES: Final = 1 << 20
_ANSWER_BYTES: Final = 8 << 20
_CALL_MS: Final = 3000
"""Short, as a dead broker delays the groups of all other brokers."""
_MOST_ANSWERS: Final = 16
"""Maximum fetches from one broker per call; for a larger backlog, reading all offsets is cheaper."""


class GroupTail:
    """Reads the log of group offsets incrementally; use it on one loop.

    :param cluster: connected
    """

    def __init__(self, cluster: RawCluster) -> None:
        self._cluster = cluster
        self._id: UUID | None = None
        self._logs: dict[int, GroupLog] = {}
        self._refused = False
        self.missing = False
        """True if the topic is missing: no group has committed yet, or the cluster hides it."""

    async def changed(self) -> frozenset[str] | None:
        """Return the groups with new records since the last call.

        A group counts as soon as an open transaction has its offset, and again when the transaction ends.

        :returns: None if some may be missing, as at the first call
        :raises NotAuthorized: drkit's principal may not read the log
        :raises RawError: no broker answers
        """
        topic = (await metadata(self._cluster, [OFFSETS_TOPIC]))[OFFSETS_TOPIC]
        self.missing = topic.error == codes.UNKNOWN_TOPIC_OR_PARTITION
        self._refused = topic.error == codes.TOPIC_AUTHORIZATION_FAILED
        if topic.topic_id != self._id:
            self._id, self._logs = topic.topic_id, {}
        new = topic.leaders.keys() - self._logs.keys()
        if new:
            await self._begin(topic, new)
        by_node: dict[int, list[int]] = {}
        for number, leader in topic.leaders.items():
            by_node.setdefault(leader.node, []).append(number)
        read = partial(self._read, topic.topic_id)
        is_complete, changed_groups = bool(topic.leaders) and not new, set[str]()
        for groups in await self._cluster.loop.together(read, by_node.items()):
            is_complete = is_complete and groups is not None
            changed_groups |= groups or set()
        if self._refused:
            self._logs = {}  # the groups read in this call are lost
            raise NotAuthorized(
                "not_authorized_for_commits",
                where=f"{OFFSETS_TOPIC} on {self._cluster.alias}",
                evidence=f"Kafka error code {codes.TOPIC_AUTHORIZATION_FAILED}",
            )
        return frozenset(changed_groups) if is_complete else None

    async def _begin(self, topic: TopicMetadata, numbers: Iterable[int]) -> None:
        """Begin at the last stable offset: every open transaction begins at or after it."""
        partitions = [TopicPartition(OFFSETS_TOPIC, n) for n in numbers]
        stable = await listed(self._cluster, {OFFSETS_TOPIC: topic}, partitions, LATEST)
        self._logs |= {tp.partition: GroupLog(offset) for tp, offset in stable.items()}

    async def _read(self, topic_id: UUID, node_partitions: tuple[int, list[int]]) -> set[str] | None:
        """Return the changed groups of one broker's partitions, or None if they were not read completely."""
        node, numbers = node_partitions
        changed: set[str] = set()
        ends: dict[int, int] = {}
        unread = [n for n in numbers if n in self._logs]
        is_complete = len(unread) == len(numbers) and node >= 0
        for _ in range(_MOST_ANSWERS):
            if not unread or node < 0:
                return changed if is_complete else None
            try:
                answer = await self._cluster.send(self._request(topic_id, unread), node, timeout_ms=_CALL_MS)
            except RawError:
                return None
            partitions = [p for t in answer.responses for p in t.partitions]
            if len(partitions) < len(unread):
                return None
            for partition in partitions:
                number = partition.partition_index
                if not self._take_partition(partition, changed):
                    is_complete = False
                    ends[number] = -1
                ends.setdefault(number, partition.high_watermark)
            unread = [n for n in unread if n in self._logs and self._logs[n].next_offset < ends[n]]
        for number in unread:
            del self._logs[number]
        return None

    def _take_partition(self, partition: Any, changed: set[str]) -> bool:
        if partition.error_code:
            self._refused |= partition.error_code == codes.TOPIC_AUTHORIZATION_FAILED
            if partition.error_code == codes.OFFSET_OUT_OF_RANGE:
                del self._logs[partition.partition_index]
            return False
        try:
            changed |= self._logs[partition.partition_index].take(bytes(partition.records or b""))
        except (CorruptBatch, ValueError):
            del self._logs[partition.partition_index]  # reading restarts at the end, and all groups are read
            return False
        return True

    def _request(self, topic_id: UUID, numbers: Iterable[int]) -> FetchRequest:
        return fetch_request(
            (OFFSETS_TOPIC, topic_id),
            {n: self._logs[n].next_offset for n in numbers},
            committed=False,
            partition_bytes=_PARTITION_BYTES,
            max_bytes=_ANSWER_BYTES,
        )
