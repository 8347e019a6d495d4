"""Consumer groups of the benchmark: offsets that they commit on the source, and the truth about each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import partial
import random
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConsumerPartition
from kafka.protocol.consumer import OffsetFetchRequest

from drkit.config import ClusterSettings
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.model import TopicPartition

GROUP_TOPIC: Final = "bench-groups"
GROUP_PARTITIONS: Final = 24
TRANSACTIONS: Final = 200
RECORDS_PER_TRANSACTION: Final = 240
ABORTED_IN_TEN: Final = 3
_BY_NAME: Final = 9
"""The last version of OffsetFetch that names topics."""
_ASKED_AT_ONCE: Final = 100

Commits = dict[str, dict[TopicPartition, int]]
"""Group → partition → committed offset."""


def fill_transactions(bootstrap: str) -> None:
    """Write records in transactions, some aborted: offsets of source and target differ more and more."""
    out = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "transactional.id": "bench-groups"})
    out.init_transactions(60.0)
    for number in range(TRANSACTIONS):
        out.begin_transaction()
        for i in range(RECORDS_PER_TRANSACTION):
            out.produce(GROUP_TOPIC, b"%d-%d" % (number, i), partition=i % GROUP_PARTITIONS)
        out.flush(60.0)
        if number % 10 < ABORTED_IN_TEN:
            out.abort_transaction(60.0)
        else:
            out.commit_transaction(60.0)
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "bench-groups"}).init_transactions(60.0)


def record_offsets(bootstrap: str) -> dict[int, list[int]]:
    """The offsets of all records of the groups' topic that a read-committed consumer gets, by partition."""
    found = _offsets_of_records(bootstrap, [TopicPartition(GROUP_TOPIC, p) for p in range(GROUP_PARTITIONS)])
    return {at.partition: offsets for at, offsets in found.items()}


def _offsets_of_records(
    bootstrap: str, partitions: Iterable[TopicPartition], most: int | None = None
) -> dict[TopicPartition, list[int]]:
    """The offsets that a read-committed consumer gets of each partition.

    :param most: of each partition; without it, all that are there
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "bench-count",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: dict[TopicPartition, list[int]] = {at: [] for at in partitions}
    unread = set(found)
    try:
        consumer.assign([ConsumerPartition(at.topic, at.partition, 0) for at in found])
        while unread:
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                at = TopicPartition(message.topic() or "", message.partition() or 0)
                if error is None:
                    found[at].append(message.offset() or 0)
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if error is not None or len(found[at]) == most:
                    unread.discard(at)
        return {at: offsets[:most] for at, offsets in found.items()}
    finally:
        consumer.close()


class FirstRecords:
    """The first records of each partition on one cluster, where a copy may have holes.

    drkit writes a marker where it ends the history of earlier appends (event ``history_ended``), for instance
    when the source has another leader: from there on the offsets of plain records differ from the source's.

    :param records: of each partition; they stay as they are once they are there
    """

    def __init__(self, bootstrap: str, records: int) -> None:
        self._bootstrap, self._records = bootstrap, records
        self._known: dict[TopicPartition, list[int]] = {}

    def wrong(self, commits: Commits, found: Commits) -> int:
        """How many positions do not lead to the record with the number that was committed.

        :param commits: numbers of records, which are their offsets in new topics with nothing but records
        :param found: positions on this cluster
        """
        wanted = {at for offsets in commits.values() for at in offsets}
        if missing := [at for at in wanted if len(self._known.get(at, ())) < self._records]:
            # One record more: so a position behind the last one differs from a position further on.
            self._known |= _offsets_of_records(self._bootstrap, missing, self._records + 1)
        return sum(
            bisect_left(self._known[at], found.get(group, {}).get(at, -1)) != number
            or at not in found.get(group, {})
            for group, numbers in commits.items()
            for at, number in numbers.items()
        )


class GroupOffsets:
    """Reads and writes offsets of groups on one cluster; a context manager."""

    def __init__(self, bootstrap: str) -> None:
        self._loop = EventLoop()
        settings = ClusterSettings(alias="bench", bootstrap_servers=bootstrap)
        self._cluster = RawCluster(self._loop, settings, "bench")
        self._groups = Groups(self._cluster)

    def commit(self, commits: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        """Commit as if from outside of the groups.

        :raises RuntimeError: something was not stored
        """
        wanted = {g: {at: Committed(o) for at, o in offsets.items()} for g, offsets in commits.items()}
        answers = self._run(lambda: self._groups.alter(wanted))
        bad = [g for g, a in answers.items() if a.value is None or any(a.value.values())]
        if bad:
            raise RuntimeError(
                f"offsets of {len(bad)} groups were not stored, of {bad[0]}: {answers[bad[0]]}"
            )

    def committed(self, groups: Iterable[str]) -> Commits:
        """All offsets of some groups."""
        answers = self._run(lambda: self._groups.committed(groups))
        return {g: {at: c.offset for at, c in (a.value or {}).items()} for g, a in answers.items()}

    def of_one_partition(self, wanted: Mapping[str, TopicPartition]) -> dict[str, int]:
        """The committed offset of each group in one partition of its own; −1 if it has none."""
        names = list(wanted)
        found: dict[str, int] = {}
        for i in range(0, len(names), _ASKED_AT_ONCE):
            part = [_one(g, wanted[g]) for g in names[i : i + _ASKED_AT_ONCE]]
            request = OffsetFetchRequest(
                groups=part, require_stable=False, min_version=8, max_version=_BY_NAME
            )
            answer = self._run(partial(self._cluster.send, request, timeout_ms=10_000))
            found |= {g.group_id: g.topics[0].partitions[0].committed_offset for g in answer.groups}
        return found

    def _run(self, question: Callable[[], Any]) -> Any:
        async def go() -> Any:
            await self._cluster.connected()
            return await question()

        return self._loop.run(go)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.close()
        self._loop.close()


def _one(group: str, at: TopicPartition) -> Any:
    group_of = OffsetFetchRequest.OffsetFetchRequestGroup
    topic_of = group_of.OffsetFetchRequestTopics
    return group_of(group_id=group, topics=[topic_of(name=at.topic, partition_indexes=[at.partition])])


class Truth:
    """The offset of each record of the topic on both sides, as consumers see it."""

    def __init__(self, on_source: Mapping[int, list[int]], on_target: Mapping[int, list[int]]) -> None:
        if any(len(on_source[p]) != len(on_target[p]) for p in on_source):
            raise RuntimeError("the copy is not complete: no truth about positions in it")
        self._on_source, self._on_target = on_source, on_target

    def is_exact(self, partition: int, upstream: int, downstream: int) -> bool:
        """Whether both offsets lead to the same next record, or both are after the last one."""
        return bisect_left(self._on_source[partition], upstream) == bisect_left(
            self._on_target[partition], downstream
        )

    def wrong(self, commits: Commits, found: Commits) -> int:
        """How many of the committed offsets have no copy on the target, or one that skips or repeats."""
        return sum(
            not self.is_exact(at.partition, upstream, found.get(group, {}).get(at, -1))
            for group, offsets in commits.items()
            for at, upstream in offsets.items()
        )

    def elsewhere(self, partition: int, upstream: int, chance: random.Random) -> int:
        """A source offset whose next record is another one."""
        offsets = self._on_source[partition]
        before = bisect_left(offsets, upstream)
        while bisect_left(offsets, moved := chance.randint(0, offsets[-1])) == before:
            pass
        return moved
