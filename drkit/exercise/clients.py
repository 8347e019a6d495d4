"""The clients of a scenario, each a process of its own that records what it did until SIGTERM.

A thread would hold its process up: librdkafka takes a minute and more to give up a dead cluster. Values are
unique and are sent once, so a record that is seen twice was repeated by drkit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
import random
import signal
import threading
from typing import Any, Final
from zlib import crc32

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from drkit.client import EndpointMoved, FailoverConsumer, FailoverProducer, FromAnotherCluster
from drkit.clock import monotonic
from drkit.config import load
from drkit.exercise.events import Acked, Consumed, NotAcked, Observed, OffsetCommitted, Recorder
from drkit.kafka.reading.range_reader import all_headers
from drkit.replay.compare import HEADER
from drkit.watch.identity import ObserverIdentity
from drkit.watch.run import FlowMoment, WatchOptions, watch

_QUICK: Final[dict[str, Any]] = {
    "socket.timeout.ms": 2000,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1000,
    "log_level": 0,
}
"""A client that gives up a dead broker within seconds, and finds it again as fast."""
_ONCE: Final[Mapping[str, Any]] = {"retries": 0}
"""With retries an idempotent producer, too, has repeated a batch after records of it had timed out."""
REFUSALS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""A cluster refused the record; after any other error it may have it."""
_WRITE_SECONDS, _TRANSACTION_SECONDS, _FOLLOW_SECONDS = 0.05, 0.25, 0.1
"""Between two writes of each kind of writer."""
_PAUSE_SECONDS: Final = 0.2
_CALL_SECONDS: Final = 5.0
_FLUSH_SECONDS: Final = 4.0
_BATCH: Final = 200
_ABORTED: Final = 0.34
"""The share of transactions that are aborted."""


def _config(**more: Any) -> dict[str, Any]:
    return {**_QUICK, **{name.replace("_", "."): value for name, value in more.items()}}


def _producer(bootstrap: str, **more: Any) -> Producer:
    return Producer(_config(bootstrap_servers=bootstrap, message_timeout_ms=3000, **more))


def _reading(group: str, **more: Any) -> dict[str, Any]:
    if "group_protocol" not in more:  # of the consumer protocol (KIP-848) the broker has it
        more["session_timeout_ms"] = 6000
    return _config(group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **more)


class _Work:
    """The recorder, the stop event and the schedule of a client, and values that no other record has."""

    def __init__(self, recorder: Recorder, name: str, stop: threading.Event, seed: int) -> None:
        self.record, self.name, self.stop = recorder.record, name, stop
        self.chance = random.Random(f"{name} {seed}")  # noqa: S311  a schedule that can be repeated
        self.number = 0
        self.headers = [("by", name.encode())]

    def next_value(self, topic: str) -> str:
        self.number += 1
        return f"{topic} {self.name} {self.number}"

    def content(self, topic: str, value: str) -> dict[str, Any]:
        """Return a record as parameters of ``produce``."""
        return {"topic": topic, "value": value, "key": value, "headers": self.headers}

    def record_delivery(
        self, cluster: str, transaction: str = "", sent: float | None = None
    ) -> Callable[[KafkaError | None, Message | None], None]:
        """Return the delivery callback of a record that was sent at a monotonic time, by default now."""
        sent = monotonic() if sent is None else sent

        def delivered(error: KafkaError | None, message: Message | None) -> None:
            if message is None:
                return
            topic, partition, offset, value = record_content(message)
            if error is None:
                # An answer has no headers.
                envelope = envelope_of(message.key(), self.headers, message.timestamp()[1])
                acked = Acked(
                    cluster, topic, partition, offset, value, transaction, sent=sent, envelope=envelope
                )
                self.record(acked)
            else:
                self.record(NotAcked(cluster, topic, value, error.name(), error.code() in REFUSALS))

        return delivered


def envelope_of(
    key: bytes | str | None, headers: Sequence[tuple[str, bytes | None]] | None, timestamp: int
) -> str:
    """Return a digest of a record's key, headers and timestamp, without the header of a replay."""
    own = [header for header in headers or () if header[0].encode() != HEADER]
    return f"{crc32(repr((key, own, timestamp)).encode()):08x}"


def record_content(message: Message) -> tuple[str, int, int, str]:
    """Return topic, partition, offset and value of a record."""
    value = message.value()
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    return message.topic() or "", message.partition() or 0, message.offset() or 0, text


def _write(work: _Work, *, cluster: str, bootstrap: str, topics: Sequence[str]) -> None:
    """Write to the topics of one cluster, whatever fails."""
    producer = _producer(bootstrap, linger_ms=2, **_ONCE)
    while not work.stop.wait(_WRITE_SECONDS):
        for topic in topics:
            with suppress(BufferError, KafkaException):
                value, partition = work.next_value(topic), work.number // len(topics) % 2
                delivered = work.record_delivery(cluster)
                producer.produce(**work.content(topic, value), partition=partition, on_delivery=delivered)
        producer.poll(0)
    producer.flush(_FLUSH_SECONDS)
    producer.purge()
    producer.flush(_FLUSH_SECONDS)  # it reports what is still unacknowledged


def _write_transactions(work: _Work, *, cluster: str, bootstrap: str, topics: Sequence[str]) -> None:
    """Write small transactions and abort a third of them; use a new producer after each failure."""
    while not work.stop.is_set():
        producer = _producer(bootstrap, transactional_id=work.name, transaction_timeout_ms=10_000)
        try:
            producer.init_transactions(_CALL_SECONDS)
            while not work.stop.wait(_TRANSACTION_SECONDS):
                _write_transaction(work, producer, cluster, topics)
        except KafkaException as error:
            value, name = work.next_value(topics[0]), error.args[0].name()
            work.record(NotAcked(cluster, topics[0], value, name, is_refused=False))
        work.stop.wait(_PAUSE_SECONDS)


def _write_transaction(work: _Work, producer: Producer, cluster: str, topics: Sequence[str]) -> None:
    """Write one transaction. Raises KafkaException if its outcome is unknown, or it failed."""
    sent: list[tuple[str, str]] = []
    delivered: dict[str, Message] = {}

    def keep(error: KafkaError | None, message: Message | None) -> None:
        if error is None and message is not None:
            delivered[record_content(message)[-1]] = message

    outcome, is_aborted, began = "", work.chance.random() < _ABORTED, monotonic()
    try:
        producer.begin_transaction()
        for topic in topics:
            for _ in range(work.chance.randint(1, 3)):
                value = work.next_value(topic)
                partition = work.chance.randrange(2)
                producer.produce(**work.content(topic, value), partition=partition, on_delivery=keep)
                sent.append((topic, value))
        producer.flush(_CALL_SECONDS)  # an abort before the broker knows the partitions would be fatal
        (producer.abort_transaction if is_aborted else producer.commit_transaction)(_CALL_SECONDS)
        outcome = "aborted" if is_aborted else "committed"
    finally:
        for topic, value in sent:
            if outcome and value in delivered:
                work.record_delivery(cluster, outcome, began)(None, delivered[value])
            else:
                work.record(NotAcked(cluster, topic, value, "transaction", is_refused=False))


def _write_following(
    work: _Work, *, endpoint: str, clusters: Mapping[str, str], topics: Sequence[str]
) -> None:
    """Write to the cluster of the endpoint file; a record whose fate is unknown is not sent again.

    :param clusters: id of a cluster → its name in the history
    """
    properties = _config(linger_ms=2, message_timeout_ms=5000, **_ONCE)
    producer = FailoverProducer(properties, endpoint=endpoint, unacknowledged="fail")

    def delivered(sent: float, error: KafkaError | None, message: Message | None) -> None:
        work.record_delivery(clusters[producer.endpoint.cluster_id], sent=sent)(error, message)

    while not work.stop.wait(_FOLLOW_SECONDS):
        for topic in topics:
            with suppress(BufferError, KafkaException):
                value = work.next_value(topic)  # its hash chooses the partition, also of new ones
                producer.produce(**work.content(topic, value), on_delivery=partial(delivered, monotonic()))
        with suppress(KafkaException):
            producer.poll(0)
    producer.close(_FLUSH_SECONDS)  # what is still unacknowledged is reported


def _read_following(
    work: _Work, *, endpoint: str, clusters: Mapping[str, str], group: str, topics: Sequence[str], **more: str
) -> None:
    """Read in a group from the cluster of the endpoint file, and commit; see :func:`_write_following`."""
    config = _reading(group, isolation_level="read_committed", **more)
    consumer = FailoverConsumer(config, endpoint=endpoint)
    consumer.subscribe(list(topics))
    while not work.stop.is_set():
        with suppress(KafkaException, FromAnotherCluster, EndpointMoved):
            messages = [m for m in consumer.consume(_BATCH, _PAUSE_SECONDS) if m.error() is None]
            if not messages:
                continue
            cluster = clusters[consumer.endpoint.cluster_id]
            for m in messages:
                envelope = envelope_of(m.key(), all_headers(m), m.timestamp()[1])
                work.record(Consumed(cluster, *record_content(m), group, envelope=envelope))
            for tp in consumer.commit(asynchronous=False) or ():
                if tp.error is None and tp.offset >= 0:
                    work.record(OffsetCommitted(cluster, tp.topic, tp.partition, group, tp.offset))
    with suppress(KafkaException):
        consumer.close()


def _stay_in_group(work: _Work, *, bootstrap: str, group: str, topics: Sequence[str], **more: str) -> None:
    """Read without a commit; with a `group_instance_id` as a static member (KIP-345)."""
    consumer = Consumer(_reading(group, bootstrap_servers=bootstrap, **more))
    consumer.subscribe(list(topics))
    while not work.stop.is_set():
        with suppress(KafkaException):
            consumer.consume(10, _PAUSE_SECONDS)
    consumer.close()


def _hang(work: _Work, *, cluster: str, bootstrap: str, topics: Sequence[str]) -> None:
    """Keep a transaction open until the client is stopped, and then abort it."""
    producer = _producer(bootstrap, transactional_id=work.name, transaction_timeout_ms=600_000)
    producer.init_transactions(_CALL_SECONDS)
    producer.begin_transaction()
    for topic in topics:
        value, delivered = work.next_value(topic), work.record_delivery(cluster, "aborted")
        producer.produce(**work.content(topic, value), partition=0, on_delivery=delivered)
    producer.flush(_CALL_SECONDS)
    while not work.stop.wait(_PAUSE_SECONDS):
        producer.poll(0)
    with suppress(KafkaException):
        producer.abort_transaction(_CALL_SECONDS)


def _observe(work: _Work, *, config: str) -> None:
    """Watch the first flow as ``drkit watch`` does, and record the verdict of each look."""
    settings = load(Path(config))
    options = WatchOptions(ObserverIdentity(work.name, f"{work.name}-{work.chance.random()}"))

    def show(moments: Sequence[FlowMoment]) -> None:
        for each in moments:
            verdict = each.moment.verdict
            work.record(Observed(verdict.kind.name, verdict.reason.value))

    watch(settings, settings.flows[:1], options, work.stop, show)


_KINDS: Final[Mapping[str, Callable[..., None]]] = {
    "writer": _write,
    "transactional writer": _write_transactions,
    "following writer": _write_following,
    "following consumer": _read_following,
    "member": _stay_in_group,
    "hanging transaction": _hang,
    "observer": _observe,
}


def run_client(*, kind: str, name: str, history: str, seed: int, **options: Any) -> None:
    """Run one client in this process until SIGTERM.

    :param name: of the client in the history, and in its records
    :param history: the file of the run
    :param options: the `properties` with which the client authenticates, and the parameters of its kind
    """
    _QUICK.update(options.pop("properties", {}))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    _KINDS[kind](_Work(Recorder(Path(history), name), name, stop, seed), **options)
