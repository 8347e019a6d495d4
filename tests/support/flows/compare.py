"""Reading both sides with an independent client and comparing them, record by record and by the map."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from drkit.config import ClusterSettings
from drkit.kafka.clients import confluent_config
from drkit.model import SourceOffset, TargetOffset
from drkit.offsets import SegmentMap
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.flows.flow import Flow

FOREIGN = b"foreign-"
"""The beginning of the keys of records that another producer wrote to the target."""
NOT_YET = frozenset({
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OFFSET_NOT_AVAILABLE,
})  # fmt: skip
"""What a broker answers about a topic that the metadata already shows and the broker does not hold yet, or
that it leads since a moment ago (KIP-207)."""


class Seen(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    timestamp_type: int

    @property
    def content(self) -> tuple[Any, ...]:
        return self[1:5]


def read(
    cluster: ClusterSettings, topic: str, *, isolation: str = "read_committed", seconds: float = 120.0
) -> dict[int, list[Seen]]:
    """Everything in a topic, by partition."""
    consumer = Consumer(
        {
            **confluent_config(cluster),
            "group.id": "compare",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "fetch.message.max.bytes": 16 << 20,
            "receive.message.max.bytes": 1 << 30,
            "log_level": 0,
        }
    )
    try:
        partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        out: dict[int, list[Seen]] = {p: [] for p in partitions}
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        # While a producer writes all the time, a consumer never reports the end: compare offsets instead.
        ends = {p: _end(consumer, TopicPartition(topic, p)) for p in partitions}
        unread, deadline = {p for p in partitions if ends[p]}, time.monotonic() + seconds
        while unread:
            assert time.monotonic() < deadline, f"{topic} on {cluster.alias}: no end of {sorted(unread)}"
            for message in consumer.consume(5000, 0.05):
                error = message.error()
                if error is None:
                    partition, seen = _seen(message)
                    out[partition].append(seen)
                    if seen.offset + 1 >= ends[partition]:
                        unread.discard(partition)
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif not error.retriable():
                    raise AssertionError(str(error))
        return out
    finally:
        consumer.close()


def _end(consumer: Consumer, at: TopicPartition) -> int:
    """Where a partition ends; the broker of one that was created just now may not lead it yet."""

    def asked() -> tuple[int, int] | None:
        try:
            return consumer.get_watermark_offsets(at, 30)
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET:
                raise
            return None

    return eventually(asked, what=f"an answer of the leader of {at}")[1]


def _seen(message: Message) -> tuple[int, Seen]:
    kind, timestamp = message.timestamp()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers() or ()
    return partition, Seen(offset, message.key(), message.value(), tuple(headers), timestamp, kind)


def same_records(expected: Sequence[Seen], copied: Sequence[Seen], where: str) -> None:
    """Content equal, in order, nothing missing and nothing twice."""
    if [s.content for s in expected] == [s.content for s in copied]:
        return
    for i, (a, b) in enumerate(zip(expected, copied, strict=False)):
        assert a.content == b.content, (
            f"{where}: record {i} differs ({len(expected)} expected, {len(copied)} copied):\n{a}\n{b}"
        )
    raise AssertionError(
        f"{where}: {len(expected)} records expected, {len(copied)} copied; first surplus: "
        f"{[*expected[len(copied) :][:1], *copied[len(expected) :][:1]]}"
    )


def map_is_exact(
    expected: Sequence[Seen],
    copied: Sequence[Seen],
    segments: SegmentMap,
    target_end: int,
    source_end: int,
    where: str,
    source_start: int = 0,
) -> None:
    """Every source offset translates to the offset of the first copied record from it on, and back."""
    if not expected:
        return
    ups = [s.offset for s in expected]
    downs = [s.offset for s in copied]
    for u in range(source_start, source_end + 1):
        i = bisect_left(ups, u)
        found = segments.translate(SourceOffset(u), target_end)
        if i < len(ups):
            assert found == downs[i], f"{where}: source {u} translated to {found}, its copy is at {downs[i]}"
        else:
            assert isinstance(found, int), f"{where}: source {u}: {found}"
            assert downs[-1] < found <= target_end, f"{where}: {u}, after the last record, gives {found}"
    for up, down in zip(ups, downs, strict=True):
        assert segments.inverse(TargetOffset(down)) == up, f"{where}: inverse of {down}"


def not_foreign(records: Iterable[Seen]) -> list[Seen]:
    return [s for s in records if not (s.key or b"").startswith(FOREIGN)]


def check_copy(
    flow: Flow,
    topic: str,
    *,
    uncommitted: bool = True,
    expected: Callable[[int, list[Seen]], list[Seen]] | None = None,
    skip: Iterable[int] = (),
) -> dict[int, int]:
    """The whole comparison of one topic; returns records by partition.

    :param uncommitted: also a reader that sees aborted records sees each record once (live mode only)
    :param expected: what of a partition (number, source records) must be on the target, by default all
    """
    theirs = read(flow.source, topic)
    ours = read(flow.target, topic)
    dirty = read(flow.target, topic, isolation="read_uncommitted") if uncommitted else ours
    maps = flow.settled(topic)
    ends, starts = flow.offsets(flow.source, topic), flow.starts(flow.source, topic)
    for p in theirs.keys() - set(skip):
        where = f"{topic}-{p}"
        wanted = expected(p, theirs[p]) if expected else theirs[p]
        copied = not_foreign(ours[p])
        same_records(wanted, copied, where)
        same_records(wanted, not_foreign(dirty[p]), f"{where} read_uncommitted")
        assert all(s.timestamp_type == TIMESTAMP_CREATE_TIME for s in copied), where
        segments, end = maps[p]
        map_is_exact(wanted, copied, segments, end, ends[p], where, starts[p])
    return {p: len(records) for p, records in theirs.items()}
