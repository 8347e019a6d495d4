"""Heartbeats: a record per second in the source, copied to the target like any other (MM2's format).

Age and arrival on the target measure the whole path, the copy task included. Kafka's own MirrorMaker writes
them on the target of the flow it runs; drkit writes them on the source, so that they measure this flow.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

from drkit import observe
from drkit.background import Background
from drkit.clock import Millis, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError, KafkaException, Producer, own_producer
from drkit.mm2_topics.topic import ensure_mm2_topic, tell_remade
from drkit.offsets.mm2_records import Heartbeat

TOPIC: Final = "heartbeats"
_SILENCE_SECONDS: Final = 5.0
_SILENT_BEATS: Final = 5
_RETRY_SECONDS: Final = 5.0
_ANSWER_MS: Final = 5000
_UNKNOWN_TOPIC_MS: Final = 2000
"""How long the topic may be missing before a heartbeat fails."""
_GONE: Final = frozenset({
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  the constant's only name
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001  likewise
    KafkaError.UNKNOWN_TOPIC_OR_PART,
})  # fmt: skip


def silence_seconds(interval_seconds: float) -> float:
    """Seconds without a heartbeat after which its loss is reported."""
    return max(_SILENCE_SECONDS, _SILENT_BEATS * interval_seconds)


def prepare_heartbeats(source: ClusterSettings, flow: FlowSettings) -> None:
    """Create the topic where it is missing, so that the first plan has it and needs no second one.

    The emitter reports what prevents it, and tries again.
    """
    with suppress(DrkitError):
        ensure_mm2_topic(Cluster.connect(source), TOPIC, flow.heartbeats_topic_replication_factor)


class HeartbeatEmitter(Background):
    """Writes a flow's heartbeats from a thread of its own, until :meth:`stop`.

    One that is not acknowledged holds back the next: a broker that wakes up gets no pile of old ones. After
    the stop those in flight may arrive or not.

    :param may: asked before every heartbeat; while it says no, none is written and none is missed
    :param now: the flow's current settings, which may change
    """

    def __init__(
        self,
        source: ClusterSettings,
        flow: FlowSettings,
        may: Callable[[], bool] = lambda: True,
        clock: Millis = wall_ms,
        now: Callable[[], FlowSettings] | None = None,
    ) -> None:
        super().__init__(f"heartbeats {flow.name}", patience=1.0)
        self._source = source
        self._flow = flow
        self._now = now or (lambda: flow)
        self._may = may
        self._clock = clock
        self._producer: Producer | None = None
        self._topic_id: UUID | None = None
        self._heard = monotonic()
        self._lost = self._gone = False
        """Gone: the topic was not there when it was last written to."""
        self._reason = "no answer"

    def _run(self) -> None:
        next_beat = monotonic()
        while not self._ended.wait(max(0.0, next_beat - monotonic())):
            self._flow = self._now()
            interval = self._flow.heartbeats_interval_seconds
            next_beat = max(next_beat + interval, monotonic())
            if not self._may():
                self._heard = monotonic()
                continue
            try:
                self._beat()
            except DrkitError as error:
                self._reason = error.in_short
                next_beat = monotonic() + max(interval, _RETRY_SECONDS)
            self._judge()

    def _beat(self) -> None:
        if self._producer is None:
            cluster = Cluster.connect(self._source)
            found = ensure_mm2_topic(cluster, TOPIC, self._flow.heartbeats_topic_replication_factor)
            tell_remade(self._flow.name, cluster, TOPIC, self._topic_id, found)
            self._topic_id = found
            self._producer = self._open()
        producer, now = self._producer, self._clock()
        if len(producer) == 0:
            beat = Heartbeat(self._flow.source, self._flow.target, now)
            try:
                producer.produce(
                    TOPIC, beat.value, beat.key, partition=0, timestamp=now, on_delivery=self._told
                )
            except KafkaException as error:
                self._failed(error.args[0])
        # Answers come within milliseconds; a dead source must not stretch the next interval.
        producer.flush(self._flow.heartbeats_interval_seconds)
        if self._gone:
            self._gone, self._producer = False, None

    def _open(self) -> Producer:
        # A deleted topic is to come back as it was: with compaction.
        limits = {"message.timeout.ms": _ANSWER_MS, "topic.metadata.propagation.max.ms": _UNKNOWN_TOPIC_MS}
        return own_producer(self._source, limits)

    def _told(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed(error)
            return
        self._heard = monotonic()
        observe.HEARTBEATS.labels(self._flow.source, self._flow.target).inc()

    def _failed(self, error: KafkaError) -> None:
        self._reason = f"{error.name()}: {error.str()}"
        self._gone = self._gone or error.code() in _GONE

    def _judge(self) -> None:
        """Report once that heartbeats are lost, and once that they are back."""
        silent = monotonic() - self._heard
        lost = silent > silence_seconds(self._flow.heartbeats_interval_seconds)
        if lost and not self._lost:
            hint = f"check {self._flow.source}, and drkit's permissions on {TOPIC}: CREATE, WRITE"
            observe.event("heartbeats_lost", level="warning", flow=self._flow.name, reason=self._reason,
                          seconds=round(silent, 1), hint=hint)  # fmt: skip
        elif self._lost and not lost:
            observe.event("heartbeats_back", flow=self._flow.name)
        self._lost = lost
