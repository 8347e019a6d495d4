"""A load on one topic that records what the brokers took, by the producers' own delivery reports."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
import itertools
import random
from typing import NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from drkit.kafka.clients import confluent_config
from tests.support.exactness.history import Content
from tests.support.exactness.truth import Truth
from tests.support.flows.beside import SideJobs
from tests.support.flows.flow import DAY_MS
from tests.support.flows.produce import now_ms, producer, put, text, wait_for_markers
from tests.support.waiting import eventually

_OLD_MS = 3 * 365 * DAY_MS
_PAUSE_SECONDS = 0.1


class Kind(NamedTuple):
    """What is written to a topic."""

    name: str
    transactional: bool = False
    idempotent: bool = False
    compacted: bool = False
    age: str = "new"
    """``new``, ``old`` (three years) or ``both`` in turn."""


KINDS = (
    Kind("plain"),
    Kind("idempotent", idempotent=True),
    Kind("atomic", transactional=True),
    Kind("compacted", transactional=True, compacted=True),
    Kind("old", age="old"),
    Kind("ages", transactional=True, age="both"),
)
ABORTS = 0.3
KEYS = 40
"""Of a compacted topic."""


class RecordedLoad(SideJobs):
    """Writes to one topic until it is stopped; then everything that was sent is settled."""

    def __init__(self, truth: Truth, kind: Kind, *, per_second: int, seed: int) -> None:
        super().__init__()
        self._truth, self._kind, self._chance = truth, kind, random.Random(seed)
        self._most = max(1, round(2 * per_second * _PAUSE_SECONDS))
        self._begin = now_ms()
        self._open: list[tuple[int, int, Content]] = []
        """Delivered in the transaction that is open."""
        self._admin = AdminClient({**confluent_config(truth.flow.source), "log_level": 0})

    def _run(self) -> None:
        out = self._producer()
        while not self._stop.wait(_PAUSE_SECONDS):
            number = self._chance.randint(1, self._most)
            if self._kind.transactional:
                out = self._transaction(out, number)
            else:
                self._some(out, number)
        assert out.flush(120) == 0
        self._settle(certain=True)
        if self._kind.transactional:
            wait_for_markers(self._truth.flow.source, self._name)

    @property
    def _name(self) -> str:
        return f"load-{self._truth.topic}"

    def _producer(self) -> Producer:
        source, codec = self._truth.flow.source, self._chance.choice(["none", "lz4", "zstd"])
        if not self._kind.transactional:
            return producer(source, compression_type=codec, enable_idempotence=self._kind.idempotent)
        out = producer(source, compression_type=codec, transactional_id=self._name)
        out.init_transactions(60)
        return out

    def _transaction(self, out: Producer, number: int) -> Producer:
        """One transaction; returns the producer for the next one."""
        try:
            out.begin_transaction()
            self._some(out, number)
            out.flush(60)  # an abort before the broker knows the partitions is fatal in librdkafka
            if self._chance.random() < ABORTS:
                out.abort_transaction(60)
                self._open.clear()
            else:
                out.commit_transaction(60)
                self._settle(certain=self._readable())
        except KafkaException:
            # A broker that goes away may end a client's transaction, and nothing says how it ended.
            self._settle(certain=False)
            return self._again()
        return out

    def _readable(self) -> bool:
        """Wait until consumers may read what was committed: a broker that starts may leave out a marker.

        The next transaction's marker then ends this one too, and may abort it.
        """
        ends = {p: offset + 1 for p, offset, _ in self._open}
        with suppress(AssertionError):
            return eventually(lambda: not ends or self._ends_reach(ends), 20)
        return False

    def _ends_reach(self, offsets: dict[int, int]) -> bool:
        """Whether all before these offsets, by partition, is committed; False if a broker is silent."""
        questions = {TopicPartition(self._truth.topic, p): OffsetSpec.latest() for p in offsets}
        committed = IsolationLevel.READ_COMMITTED
        with suppress(KafkaException):
            answers = self._admin.list_offsets(questions, isolation_level=committed, request_timeout=5)
            return all(each.result().offset >= offsets[tp.partition] for tp, each in answers.items())
        return False

    def _again(self) -> Producer:
        while True:
            with suppress(KafkaException):
                return self._producer()

    def _settle(self, *, certain: bool) -> None:
        self._truth.delivered += [(*one, certain) for one in self._open]
        self._open = []

    def _some(self, out: Producer, number: int) -> None:
        for i in itertools.islice(self._truth.numbers, number):
            key = b"k%d" % (self._chance.randrange(KEYS) if self._kind.compacted else i)
            value = None if self._chance.random() < 0.1 else text(i, self._chance.choice([20, 40, 400]))
            partition = self._chance.randrange(len(self._truth.partitions))
            content = (key, value, (("id", b"%d" % i),), self._timestamp(i))
            put(
                out, self._truth.topic, value, key, partition=partition, headers=list(content[2]),
                timestamp=content[3], on_delivery=partial(self._delivered, partition, content),
            )  # fmt: skip
        out.poll(0)
        if not self._kind.transactional:
            self._settle(certain=True)

    def _delivered(self, partition: int, content: Content, error: object, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            self._open.append((partition, offset, content))

    def _timestamp(self, number: int) -> int:
        if self._kind.age == "old":
            return self._begin - _OLD_MS + number
        old = self._kind.age == "both" and (number // 300) % 2
        return now_ms() - (2 * DAY_MS if old else 0)
