"""A flow's state on the target: one small compacted topic, keys as text, values as JSON objects.

Nothing of a flow lives elsewhere, so any machine can go on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
import json
import logging
import threading
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError, Failed, NotAuthorized, Refused
from drkit.kafka.admin import Cluster
from drkit.kafka.client_config import confluent_config
from drkit.kafka.own_topics import appeared, create_own_topic
from drkit.kafka.topics import Topic, describe_topics
from drkit.offset_map.topic import topic_name as map_topic_name

CONTROL: Final = "control"
LEASE: Final = "lease"
PRODUCER_IDS: Final = "producer-ids"
BULK_PRODUCER_ID: Final = "producer-ids/bulk/"
OFFSET_MAP: Final = "offset-map"
FLOW: Final = "flow"
"""Ids of the clusters between which the flow runs: aliases may be called otherwise elsewhere."""
TAKEOVER: Final = "takeover/"
"""Before a topic's name: from where it was taken over from MirrorMaker 2."""
SKIPS: Final = "skips"
"""Producer ids on the source that all tasks leave out: an opposite flow wrote with them."""
_READ_SECONDS: Final = 20.0
_WRITE_SECONDS: Final = 30.0
_CONFIGS: Final = {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}
_FINAL: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001  the constant's only name
})  # fmt: skip
Value = dict[str, Any]

# librdkafka writes its own lines to stderr unless a logger takes them; ours name the consequence.
QUIET: Final = logging.getLogger("drkit.replicate.clients")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def topic_name(source: str) -> str:
    """Name of the state topic on the target for a source alias."""
    return f"drkit-state.{source}.internal"


def source_of(name: str) -> str | None:
    """The source alias in the name of a state topic; None for any other topic."""
    middle = name.removeprefix("drkit-state.").removesuffix(".internal")
    return middle if middle and name == topic_name(middle) else None


def topic_key(topic: str) -> str:
    """Key of the generation record of a source topic."""
    return f"topic/{topic}"


def ensure_state_topic(target: Cluster, flow: FlowSettings) -> None:
    """Create the state topic of a flow where it is missing. Raises DrkitError when that is not possible."""
    _ensure(target, topic_name(flow.source), 1)


def ensure_offset_map(target: Cluster, flow: FlowSettings, state: StateTopic) -> None:
    """Create the offset map of a flow when there never was one, and remember its id.

    :param state: loaded
    :raises Refused: the map is not the one by which topics were copied: copying would begin anew behind
        the records that are there
    :raises Failed: it has another number of buckets
    """
    name = map_topic_name(flow.source)
    known = state.values.get(OFFSET_MAP)
    found = describe_topics(target, [name]).get(name)
    if known is not None and (found is None or str(found.topic_id) != known["topic_id"]):
        raise Refused(
            "the offset map was deleted: nobody knows any more what was copied",
            where=f"{name} on {target.alias}",
            evidence=f"it had the id {known['topic_id']}, now {found.topic_id if found else 'it is missing'}",
            hint=f"to copy from the start, delete the copied topics, {name} and {state.name} on the target",
        )
    found = found or _ensure(target, name, flow.buckets)
    if len(found.partitions) != flow.buckets:
        raise Failed(
            "the offset map was made with another number of buckets",
            where=f"{name} on {target.alias}",
            evidence=f"{len(found.partitions)} partitions, buckets = {flow.buckets}",
            hint=f"set buckets = {len(found.partitions)} in the flow {flow.name}",
        )
    if known is None:
        state.put(OFFSET_MAP, {"topic_id": str(found.topic_id)})


def _ensure(target: Cluster, name: str, partitions: int) -> Topic:
    found = describe_topics(target, [name]).get(name)
    if found is not None:
        return found
    create_own_topic(target, name, _CONFIGS, partitions)
    return appeared(target, name)


class Entry(NamedTuple):
    """One record of the state topic; a value of None deletes the key."""

    key: str
    value: Value | None


class StateTopic:
    """Reads and writes a flow's state. May be used from several threads."""

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = topic_name(source)
        self._target = target
        config = {**confluent_config(target), "log_level": 0}
        self._consumer = Consumer(
            {
                **config,
                # Never used as a group: partitions are assigned and offsets never committed.
                "group.id": f"drkit-{source}-state",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            },
            logger=QUIET,
        )
        self._producer = Producer(
            {
                **config,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 30_000,
                "allow.auto.create.topics": False,  # deleted, it must not come back as another one
            },
            logger=QUIET,
        )
        self._consumer.assign([ConfluentPartition(self.name, 0, OFFSET_BEGINNING)])
        self._lock = threading.Lock()
        self._position = 0
        self.values: dict[str, Value] = {}
        self.unreadable: dict[str, str] = {}
        """Keys whose newest record is not drkit's, and what it is; `values` has the one before it."""

    def load(self) -> list[Entry]:
        """Read on to the end; returns what is new and keeps the newest value of every key.

        :raises DrkitError: the topic cannot be read
        """
        with self._lock:
            fresh: list[Entry] = []
            deadline = monotonic() + _READ_SECONDS
            end = self._end()
            if end < self._position:
                raise self._unreadable(f"it ends at {end}, but was read up to {self._position}")
            # An open transaction holds the end back for moments; what it decides may concern us.
            while self._position < end:
                message = self._consumer.poll(0.1)
                if message is None:
                    if monotonic() > deadline:
                        raise self._unreadable(f"no answer in {_READ_SECONDS:.0f} s")
                    continue
                error = message.error()
                if error is None:
                    self._position = (message.offset() or 0) + 1
                    fresh += self._take(message.key(), message.value(), message.offset() or 0)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  the constant's only name
                    # Told once per end reached, also behind transaction markers, which are no messages.
                    self._position = message.offset() or 0
                elif error.code() in _FINAL or monotonic() > deadline:
                    raise self._unreadable(f"{error.name()}: {error.str()}", error.code())
            return fresh

    @property
    def position(self) -> int:
        """The first offset of the topic not read yet."""
        return self._position

    def _end(self) -> int:
        """The topic's end now; a topic just made, or one that moves, is asked again."""
        patient = Retrying(
            retry=retry_if_exception(_passes),
            stop=stop_after_delay(_READ_SECONDS),
            wait=wait_fixed(0.1),
            reraise=True,
        )
        at = ConfluentPartition(self.name, 0)
        try:
            answer = patient(self._consumer.get_watermark_offsets, at, _READ_SECONDS)
        except KafkaException as error:
            raise self._unreadable(error.args[0].str()) from error
        if answer is None:
            raise self._unreadable(f"no answer in {_READ_SECONDS:.0f} s")
        return int(answer[1])

    def _take(self, key: bytes | None, value: bytes | None, offset: int) -> list[Entry]:
        if key is None:
            return []
        name = key.decode("utf-8", errors="replace")
        self.unreadable.pop(name, None)
        if value is None:
            self.values.pop(name, None)
            return [Entry(name, None)]
        try:
            body = json.loads(value)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.unreadable[name] = f"offset {offset}: {len(value)} bytes, no JSON object: {value[:8].hex()}…"
            return []
        self.values[name] = body
        return [Entry(name, body)]

    def put(self, key: str, value: Mapping[str, Any] | None) -> None:
        """Write one record, durably (acks=all).

        :raises Failed: it was not accepted
        """
        heard: list[KafkaError | None] = []
        body = None if value is None else json.dumps(value).encode()
        self._producer.produce(
            self.name, body, key.encode(), partition=0, on_delivery=lambda error, _: heard.append(error)
        )
        self._producer.flush(_WRITE_SECONDS)
        if not heard or heard[0] is not None:
            raise Failed(
                "the flow's state cannot be written",
                where=f"{self.name} on {self._target.alias}",
                evidence=str(heard[0]) if heard else f"no answer in {_WRITE_SECONDS:.0f} s",
                hint="check in-sync replicas of the target and drkit's permission to write there",
            )
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = dict(value)

    def control(self, run_id: str, plan: int, action: str) -> None:
        """Tell the tasks: ``run`` under a newer plan, or ``stop``."""
        self.put(CONTROL, {"run_id": run_id, "plan": plan, "action": action})

    def emit(self, kind: str, topic: str, partition: int = -1, **fields: object) -> Value:
        """Write an event where `drkit status` finds it; partition −1 is the whole topic."""
        body = {"kind": kind, "topic": topic, "partition": partition, "at_ms": wall_ms(), **fields}
        self.put(f"event/{kind}/{topic}/{partition}", body)
        return body

    def close(self) -> None:
        """Let go of the connections."""
        try:
            with self._lock:
                self._consumer.close()
        except KafkaException as error:
            raise self._unreadable(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _unreadable(self, evidence: str, code: int = 0) -> DrkitError:
        kind = NotAuthorized if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else Failed
        return kind(
            "the flow's state cannot be read",
            where=f"{self.name} on {self._target.alias}",
            evidence=evidence,
            hint="check the target with: drkit config check --connect",
        )


def _passes(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() not in _FINAL
