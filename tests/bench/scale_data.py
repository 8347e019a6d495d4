"""Many small topics and many groups: written on the source, looked for on the target."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
import threading
import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from drkit.model import TopicPartition
from tests.bench.positions import Commits, GroupOffsets
from tests.bench.waiting import pause_until, until
from tests.support.flows.compare import NOT_YET

PARTITIONS: Final = 2
RECORDS: Final = 5
"""In each partition."""
GROUPS_PER_TOPIC: Final = 2
MOST_PARTITIONS: Final = 4
"""In which a group commits, at most."""
SAMPLES: Final = 10
"""Topics that get light load, and whose ends are looked at often."""
LOAD_RATE: Final = 100
"""Records a second, over all of them."""
_AT_ONCE: Final = 200
_WAIT_SECONDS: Final = 60.0
_CREATE_SECONDS: Final = 240.0
_GRACE_SECONDS: Final = 5.0
_NEW: Final = NOT_YET | {KafkaError.UNKNOWN_LEADER_EPOCH}


class Data:
    """The topics and groups of one size.

    :param topics: how many
    """

    def __init__(self, source: str, target: str, topics: int) -> None:
        self._from, self._to = source, target
        self.topics, self.groups = topics, topics * GROUPS_PER_TOPIC
        self._names = [f"scale-{i:05d}" for i in range(topics)]
        self._sampled = [self._names[i * topics // SAMPLES] for i in range(SAMPLES)]
        self._source, self._target = (AdminClient(_settings(at)) for at in (source, target))
        self._out = Producer(_settings(source) | {"linger.ms": 0})
        self._expected = 0
        self._lost: KafkaError | None = None
        self.before = 0
        """What :meth:`sampled_end` was when a replicator was started."""

    def fill(self) -> None:
        """Create the topics, write their records, commit for the groups."""
        self._create(self._names)
        for name in self._names:
            for i in range(RECORDS * PARTITIONS):
                self._write(name, i % PARTITIONS)
            self._out.poll(0)
        self._flush()
        wanted = self._commits()
        names = sorted(wanted)
        with GroupOffsets(self._from) as source:
            for i in range(0, len(names), _AT_ONCE):
                some = {g: wanted[g] for g in names[i : i + _AT_ONCE]}
                until(partial(_commit, source, some), _WAIT_SECONDS, "a coordinator")

    def _commits(self) -> dict[str, dict[TopicPartition, int]]:
        """Each group in one to four partitions of neighbouring topics."""
        return {
            f"scale-{i:05d}": {
                TopicPartition(
                    self._names[(i // GROUPS_PER_TOPIC + n // PARTITIONS) % self.topics], n % PARTITIONS
                ): 1 + i % RECORDS
                for n in range(1 + i % MOST_PARTITIONS)
            }
            for i in range(self.groups)
        }

    def _write(self, topic: str, partition: int, value: bytes = b"x" * 100) -> None:
        self._expected += 1
        while True:
            try:
                return self._out.produce(topic, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                self._out.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: object) -> None:  # noqa: ARG002  the client's call
        if error is not None:
            self._lost = error

    def _flush(self) -> None:
        """Wait until everything is written. Raises RuntimeError when something was not."""
        if self._out.flush(_WAIT_SECONDS) or self._lost is not None:
            raise RuntimeError(f"a record was not written: {self._lost}")

    def _create(self, names: list[str]) -> None:
        for i in range(0, len(names), _AT_ONCE):
            topics = [NewTopic(n, PARTITIONS, 1) for n in names[i : i + _AT_ONCE]]
            for future in self._source.create_topics(topics).values():
                future.result(_WAIT_SECONDS)
        until(lambda: _exist(self._source, names), _CREATE_SECONDS, "topics of the source")

    def is_copied(self) -> bool:
        """Whether the target has every record."""
        return _end(self._target, self._names) >= self._expected

    def sampled_end(self) -> int:
        """The sum of some topics' ends on the target; 0 while one is not there."""
        return _end(self._target, self._sampled)

    def add_samples(self) -> None:
        """One more record for each sampled topic, to be copied first by the next replicator."""
        self.before = self.sampled_end()
        for name in self._sampled:
            self._write(name, 0)
        self._flush()

    def groups_are_there(self, *, whole: bool) -> bool:
        """Whether the last group, or every one, has all its positions on the target."""
        wanted = self._commits()
        names = sorted(wanted) if whole else sorted(wanted)[-1:]
        with GroupOffsets(self._to) as target:
            found = target.committed(names)
        return all(found.get(g, {}).keys() >= wanted[g].keys() for g in names)

    def light_load(self, seconds: float) -> list[float]:
        """Write to the sampled topics; milliseconds until a consumer on the target has each record."""
        settings = _settings(self._to) | {"group.id": "scale-reader", "fetch.wait.max.ms": 10}
        reader = Consumer(settings | {"auto.offset.reset": "latest", "enable.auto.commit": False})
        ends = [ConfluentPartition(n, 0, _end(self._target, [n], only=0)) for n in self._sampled]
        reader.assign(ends)
        over, delays = threading.Event(), list[float]()

        def read() -> None:
            until_when = float("inf")
            while time.monotonic() < until_when:
                if over.is_set() and until_when == float("inf"):
                    until_when = time.monotonic() + _GRACE_SECONDS
                message = reader.poll(0.1)
                if message is not None and message.error() is None:
                    value = message.value() or b""
                    delays.append(1000 * (time.monotonic() - float(value)))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        began = time.monotonic()
        for number in range(int(seconds * LOAD_RATE)):
            pause_until(began + number / LOAD_RATE, "records come at an even pace")
            self._write(self._sampled[number % SAMPLES], 0, b"%.6f" % time.monotonic())
            self._out.poll(0)
        self._flush()
        over.set()
        thread.join()
        reader.close()
        return delays

    def new_topic(self, number: int, patience: float) -> float:
        """Seconds from the creation of a topic, with a record at once, to that record on the target."""
        name = f"scale-new-{number}"
        began = time.monotonic()
        self._create([name])
        self._write(name, 0)
        self._flush()
        until(lambda: _end(self._target, [name]) > 0, patience, name)
        return round(time.monotonic() - began, 2)


def _commit(source: GroupOffsets, wanted: Commits) -> bool:
    """Commit; False while the topic of the offsets is being created."""
    try:
        source.commit(wanted)
    except RuntimeError:
        return False
    return True


def _settings(bootstrap: str) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def _exist(admin: AdminClient, names: Iterable[str]) -> bool:
    """Whether topics have leaders."""
    found = admin.describe_topics(TopicCollection(list(names)), request_timeout=_WAIT_SECONDS)
    try:
        topics = [future.result() for future in found.values()]
    except KafkaException as error:
        if error.args[0].code() in NOT_YET:
            return False
        raise
    return all(len(t.partitions) == PARTITIONS and all(p.leader for p in t.partitions) for t in topics)


def _end(admin: AdminClient, names: Iterable[str], only: int | None = None) -> int:
    """The sum of the ends of some topics; 0 while one of them is not there."""
    wanted = list(names)
    if not _exist(admin, wanted):
        return 0
    partitions = range(PARTITIONS) if only is None else (only,)
    asked = {ConfluentPartition(n, p): OffsetSpec.latest() for n in wanted for p in partitions}
    try:
        answers = admin.list_offsets(asked, request_timeout=_WAIT_SECONDS)
        return sum(max(0, future.result().offset) for future in answers.values())
    except KafkaException as error:
        if error.args[0].code() in _NEW:
            return 0
        raise
