"""Topics of every kind that an export meets, on one cluster, and what is true of each offset of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Producer

from drkit.config import ClusterSettings
from drkit.export.manifest import TailRange
from drkit.export.record import ExportedRecord, HoleKind, TimestampType
from drkit.kafka.requests import describe_producers
from drkit.model import TopicPartition
from tests.support.flows.compare import Seen, read
from tests.support.flows.flow import Flow
from tests.support.flows.produce import aged, fill, fill_transactions, now_ms, producer, put
from tests.support.waiting import eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
YEARS_MS = 9 * 365 * 86_400_000
COMPACT = {
    "cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000", "delete.retention.ms": "3600000",
}  # fmt: skip


class Truth(NamedTuple):
    """What an independent consumer sees of a partition."""

    visible: dict[int, Seen]
    """With read_committed, by offset."""
    written: frozenset[int]
    """Offsets with read_uncommitted."""
    start: int
    end: int


class Topics:
    """Topics of a flow's source, by what is in them."""

    def __init__(self, flow: Flow, prefix: str) -> None:
        self.flow, self._prefix = flow, prefix
        self.cluster: ClusterSettings = flow.source
        self.names: dict[str, str] = {}
        self.copied_back = -1
        """The producer of records that drkit copied there, for an export."""

    def name(self, kind: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic."""
        found = self.names[kind] = f"{self._prefix}-{kind}"
        self.flow.create(self.cluster, found, partitions, config or {})
        return found

    def fill(self) -> None:
        """Make them all."""
        codecs = self.name("codecs", len(CODECS))
        for number, codec in enumerate(CODECS):
            out = producer(self.cluster, compression_type=codec)
            for i in range(300):
                value = None if i % 11 == 0 else b"%d " % i * (i % 50)
                out.produce(codecs, value, b"k%d" % i, number, headers=[("h", b"%d" % i), ("none", None)])
            assert out.flush(30) == 0
        fill_transactions(self.cluster, [self.name("transactions", 2)], 300, seed=8, most=30)
        fill(self.cluster, self.name("broker-time", config={"message.timestamp.type": "LogAppendTime"}), 200)
        fill(self.cluster, self.name("old", config={"retention.ms": "-1"}), 200, timestamp=aged(YEARS_MS))
        self._empties()
        trimmed = self.name("trimmed")
        fill(self.cluster, trimmed, 100)
        self.flow.delete_records(trimmed, 0, 30, self.cluster)
        self._copied_back()
        self._compacted()

    def _copied_back(self) -> None:
        """Twenty records of a producer that counts as drkit's, then ten of another one."""
        name = self.name("copied-back")
        fill(self.cluster, name, 20, enable_idempotence=True)
        fill(self.cluster, name, 10, enable_idempotence=True, first=20)
        at, node = TopicPartition(name, 0), self.flow.topic(self.cluster, name).leaders[0].node
        ((_, known),) = self.flow.ask(self.cluster, describe_producers, node, [at]).values()
        (self.copied_back,) = [number for number, state in known.items() if state.last_sequence == 19]

    def _empties(self) -> None:
        out = producer(self.cluster)
        name = self.name("empties")
        texts: Iterable[bytes | None] = (None, b"", b"x")
        for key in texts:
            for value in texts:
                for headers in ([], [("", None)], [("", b"")], [("a", b"1"), ("a", None), ("a", b"")]):
                    more: dict[str, Any] = {"headers": headers} if headers else {}
                    put(out, name, value, key, partition=0, **more)
        assert out.flush(30) == 0

    def _compacted(self) -> None:
        name = self.name("compacted", config=COMPACT)
        plain = producer(self.cluster)
        atomic = producer(self.cluster, transactional_id=f"{name}-1")
        atomic.init_transactions(30)
        for i in range(200):
            if i % 50 == 0:
                plain.flush(30)
                atomic.begin_transaction()
            out: Producer = atomic if i % 50 < 20 else plain
            put(out, name, None if i % 10 == 0 else b"%d" % i, b"k%d" % (i % 23), partition=0)
            if i % 50 == 20:
                atomic.flush(30)
                (atomic.abort_transaction if i < 100 else atomic.commit_transaction)(30)
        assert plain.flush(30) == 0
        before = len(read(self.cluster, name)[0])
        put(plain, name, b"roll", b"roll", timestamp=now_ms() + 2000)
        assert plain.flush(30) == 0
        eventually(lambda: len(read(self.cluster, name)[0]) < before, what="compaction")
        # Else the cleaner continues while the export reads.
        self.flow.configure(self.cluster, name, "max.compaction.lag.ms", str((1 << 63) - 1))
        self.flow.configure(self.cluster, name, "min.compaction.lag.ms", str(1 << 60))

    def tails(self, *kinds: str, first: int = 0) -> list[TailRange]:
        """All offsets of some topics, from one on."""
        found = []
        for kind in kinds or self.names:
            name = self.names[kind]
            topic_id = self.flow.topic(self.cluster, name).topic_id
            ends = self.flow.offsets(self.cluster, name)
            found += [TailRange(name, topic_id, number, first, end) for number, end in ends.items()]
        return found

    def truth(self, kind: str) -> dict[int, Truth]:
        """What is in a topic."""
        name = self.names[kind]
        committed, written = read(self.cluster, name), read(self.cluster, name, isolation="read_uncommitted")
        starts, ends = self.flow.starts(self.cluster, name), self.flow.offsets(self.cluster, name)
        return {
            number: Truth(
                {seen.offset: seen for seen in seen_here},
                frozenset(seen.offset for seen in written[number]),
                starts[number],
                ends[number],
            )
            for number, seen_here in committed.items()
        }


def seen_as(record: ExportedRecord) -> Seen:
    """A record as a consumer sees it."""
    headers = tuple((name.decode(), value) for name, value in record.headers)
    kind = {TimestampType.CREATE_TIME: 1, TimestampType.LOG_APPEND_TIME: 2}[record.timestamp_type]
    return Seen(record.offset, record.key, record.value, headers, record.timestamp, kind)


def kinds_at(truth: Truth, offset: int) -> set[HoleKind]:
    """What a hole at an offset may be: markers and removed records look the same to a consumer."""
    if offset < truth.start:
        return {HoleKind.REMOVED}
    if offset in truth.written:
        return {HoleKind.ABORTED}
    return {HoleKind.MARKER, HoleKind.COMPACTED}
