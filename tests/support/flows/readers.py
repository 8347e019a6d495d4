"""Many groups that read a topic under load, each up to its own offset; and what they read first elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
import random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ConsumerPartition

from drkit.config import ClusterSettings
from tests.support.flows.beside import SideJobs
from tests.support.waiting import eventually

Content = tuple[Any, ...]


def _member(cluster: ClusterSettings, group: str, **more: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "session.timeout.ms": 10_000,
            "log_level": 0,
            **{k.replace("_", "."): v for k, v in more.items()},
        }
    )


class Readers(SideJobs):
    """One member per group, all in a thread: they subscribe, read and commit until `stop`.

    Then each commits once more and leaves. Some read slowly, so that the groups have different positions.
    """

    def __init__(self, cluster: ClusterSettings, topic: str, groups: Sequence[str], *, seed: int = 3) -> None:
        super().__init__()
        self._members = {g: _member(cluster, g) for g in groups}
        self._topic, self._chance = topic, random.Random(seed)
        self.read = dict.fromkeys(groups, 0)

    def _run(self) -> None:
        for member in self._members.values():
            member.subscribe([self._topic])
        paces = {g: self._chance.randint(1, 120) for g in self._members}
        while not self._stop.is_set():
            for group, member in self._members.items():
                messages = [m for m in member.consume(paces[group], 0.02) if m.error() is None]
                self.read[group] += len(messages)
                if messages and self._chance.random() < 0.3:
                    member.commit(asynchronous=True)
        for member in self._members.values():
            eventually(partial(_committed, member), what="the last commit of a group")
            member.close()


def _committed(member: Consumer) -> bool:
    """Commit the current position; a broker that is away is asked again."""
    try:
        member.commit(asynchronous=False)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError._NO_OFFSET)
    return True


def first_records(
    cluster: ClusterSettings, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, Content | None]:
    """What a member of the group gets first from each partition; None where its position is the end.

    It joins as any application does, and commits nothing.
    """
    wanted, found = set(partitions), dict[int, Content | None]()
    member = _member(cluster, group, isolation_level="read_committed", enable_partition_eof=True)
    try:
        member.subscribe([topic])

        def all_seen() -> bool:
            for message in member.consume(500, 0.1):
                _take(member, message, found)
            return wanted <= found.keys()

        eventually(all_seen, 120, f"first records of {group}")
        return {p: found[p] for p in wanted}
    finally:
        member.close()


def _take(member: Consumer, message: Message, found: dict[int, Content | None]) -> None:
    error, partition = message.error(), message.partition()
    assert partition is not None
    if error is not None:
        assert error.code() == KafkaError._PARTITION_EOF or error.retriable(), error
        if error.code() == KafkaError._PARTITION_EOF:
            found.setdefault(partition, None)
    elif partition not in found:
        found[partition] = (
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
            message.timestamp()[1],
        )
        member.pause([ConsumerPartition(message.topic() or "", partition)])
