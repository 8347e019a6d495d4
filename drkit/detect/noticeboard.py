"""Notes that observers, fence agents and people exchange: one small compacted topic per flow.

The topic is on the target, and on a third cluster if there is one; a note in both counts once. Keys are
text, values are JSON objects that :mod:`drkit.detect.notes` reads. Nothing here waits for a cluster that
does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
import json
import threading
from typing import Any, Final

from drkit import observe
from drkit.background import Background
from drkit.clock import Millis, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.note_kinds import Automatic
from drkit.detect.notes import ANYBODY, Note, Notes, R, Speakers
from drkit.errors import DrkitError
from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.creation import kept_tombstones
from drkit.flow_state.names import watch_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError, KafkaException, Message, Producer, own_producer
from drkit.kafka.reading.log_tail import SMALL_BYTES, LogRestarted
from drkit.kafka.reading.signed_log import SignedLog
from drkit.kafka.topics import describe_topics, ensure_own_topic
from drkit.wire import Record

_RETRY_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 1.0
_WAIT_MS: Final = 100
_SILENT_SECONDS: Final = 10.0


def topic_name(flow: FlowSettings) -> str:
    """Name of a flow's topic, the same on every cluster."""
    return watch_topic(flow.source, flow.target)


def ensure_board(cluster: Cluster, flow: FlowSettings) -> None:
    """Create the topic if it is missing. Raises DrkitError if it cannot be created."""
    configs = {
        "cleanup.policy": "compact",
        # A vote a second: what is old goes within minutes, so that reading from the start stays quick.
        "segment.ms": "600000",
        "min.cleanable.dirty.ratio": "0.1",
        "max.compaction.lag.ms": "1200000",
        # Brokers unpack what they store: no small batch unpacks to a large one at its readers.
        "compression.type": "uncompressed",
        "max.message.bytes": str(SMALL_BYTES),
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",  # a copy of a signed note shows its age
    }
    ensure_own_topic(cluster, topic_name(flow), configs | kept_tombstones(cluster.settings))


def read_notes(cluster: Cluster, flow: FlowSettings, speakers: Speakers = ANYBODY) -> Notes:
    """The current notes of all trusted names. Raises DrkitError."""
    name = topic_name(flow)
    notes = Notes(partial(_report, f"{name} on {cluster.alias}"), speakers)
    with closing(SignedLog(cluster.settings, name, partial(_take, notes))) as log:
        if describe_topics(cluster, [name]):
            log.read()
            notes.undecided = _undecided(log)
    return notes


def _take(
    notes: Notes, record: Record, why: str, now: float = 0.0, wall_ms: int = 0, *, live: bool = False
) -> None:
    if record.key is None:
        if why:
            notes.pass_over(why, live=live)
    elif why:
        notes.refuse(record.key, why, live=live)
    else:
        notes.take(record.key, record.value, now, wall_ms, live=live)


def _undecided(log: SignedLog) -> frozenset[str]:
    return frozenset((r.key or b"").decode(errors="replace") for r in log.tail.undecided)


def _report(where: str, key: str, why: str) -> None:
    observe.event(
        "note_dropped", level="warning", where=where, key=key, reason=why,
        hint="find out who writes to this topic besides drkit, and deny it",
    )  # fmt: skip


def put_note(cluster: Cluster, flow: FlowSettings, key: str, value: Mapping[str, Any] | None) -> None:
    """Write one note, durably; None takes it away. Raises DrkitError if it was not accepted."""
    ensure_board(cluster, flow)
    body = None if value is None else json.dumps(value).encode()
    with closing(SignedLog(cluster.settings, topic_name(flow), lambda _record, _why: None)) as log:
        log.append((key.encode(), body))


def _producer(cluster: ClusterSettings, ttl_seconds: float) -> Producer:
    # With more in flight a repeated request brings an older note after a newer one.
    # What cannot be delivered soon is worth nothing later.
    limits = {"max.in.flight": 1, "message.timeout.ms": max(1000, int(ttl_seconds * 1000))}
    return own_producer(cluster, {"reconnect.backoff.max.ms": 1000, **limits})


class Noticeboard(Background):
    """The topic on one cluster, read and written from a thread of its own until :meth:`stop`.

    :param ttl_seconds: what is published is forgotten when it was not delivered within this time
    :param speakers: the names that are believed
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        flow: FlowSettings,
        clock: AwakeClock,
        ttl_seconds: float,
        wall: Millis = wall_ms,
        speakers: Speakers = ANYBODY,
    ) -> None:
        super().__init__(f"board {cluster.alias}", patience=3.0)
        self.alias = cluster.alias
        self.topic = topic_name(flow)
        self._cluster, self._flow, self._ttl = cluster, flow, ttl_seconds
        self._clock, self._wall = clock, wall
        self._lock = threading.Lock()
        self._notes = Notes(partial(_report, f"{self.topic} on {self.alias}"), speakers)
        self._waiting: dict[str, bytes | None] = {}
        self.is_read = False
        """The topic was read to its end once."""
        self._log = SignedLog(cluster, self.topic, self.take)
        self._acked: float | None = None
        self.why = "not connected yet"
        """Why the cluster took nothing; the last reason."""

    def publish(self, key: str, note: StateRecord | None) -> None:
        """Write a note soon; a newer note of a key replaces one that waits, and None deletes the key."""
        with self._lock:
            self._waiting[key] = None if note is None else note.encode()

    def all(self, kind: type[R]) -> list[Note[R]]:
        """All notes of a kind."""
        with self._lock:
            return self._notes.all(kind)

    def one(self, kind: type[R]) -> Note[R] | None:
        """The note of a kind that has a single one."""
        with self._lock:
            return self._notes.one(kind)

    def strangers(self, seconds: float) -> dict[str, str]:
        """Names that are not configured and published within this time, and why they do not count."""
        with self._lock:
            return self._notes.strangers(self._clock.now() - seconds)

    @property
    def pause(self) -> str:
        """See :class:`drkit.detect.notes.Notes`."""
        with self._lock:
            return self._notes.pause

    @property
    def automatic(self) -> Automatic | None:
        """See :class:`drkit.detect.notes.Notes`."""
        with self._lock:
            return self._notes.automatic

    def silent_seconds(self) -> float | None:
        """Since the cluster last took something; None: never."""
        return None if self._acked is None else self._clock.now() - self._acked

    def _run(self) -> None:
        with closing(self._log):
            while not self._ended.is_set():
                try:
                    ensure_board(Cluster.connect(self._cluster), self._flow)
                    self._follow()
                except DrkitError as error:
                    self._fails(error.in_short)
                    self._ended.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        """Read and write until the end, or until nothing was heard for a while: the topic may be gone.

        :raises LogRestarted: the topic was created again; it is read from its start then
        """
        producer, heard = _producer(self._cluster, self._ttl), self._clock.now()
        try:
            while not self._ended.is_set() and self._clock.now() - heard < _SILENT_SECONDS:
                if self._log.tail.cluster_id:
                    self._send(producer)
                try:
                    ended = self._log.tail.poll(_ANSWER_SECONDS, _WAIT_MS)
                except LogRestarted as error:
                    observe.error(error, flow=self._flow.name)  # its notes count until others replace them
                    self._log.restart()
                    self.is_read = False
                    raise
                except DrkitError as error:
                    self._fails(error.in_short)
                    self._ended.wait(_WAIT_MS / 1000)
                else:
                    heard = self._clock.now()
                    self.is_read = self.is_read or ended
                    with self._lock:
                        self._notes.undecided = _undecided(self._log)
        finally:
            producer.flush(1.0)

    def _send(self, producer: Producer) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for key, body in waiting.items():
            try:
                headers = self._log.signatures.text_headers(key.encode(), body)
                producer.produce(self.topic, body, key, partition=0, headers=headers, on_delivery=self._told)
            except (KafkaException, BufferError) as error:
                self._fails(str(error))
        producer.poll(0)

    def _told(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._acked = self._clock.now()
        else:
            self._fails(f"{error.name()}: {error.str()}")

    def _fails(self, why: str) -> None:
        if why != self.why:
            self.why = why
            observe.event("board_silent", level="debug", where=f"{self.topic} on {self.alias}", reason=why)

    def take(self, record: Record, why: str) -> None:
        """Take one record of the topic, and why it does not count; empty when it does."""
        with self._lock:
            _take(self._notes, record, why, self._clock.now(), self._wall(), live=self.is_read)
