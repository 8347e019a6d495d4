"""The compacted topic on the target with the entries of a flow's drills, so that any machine knows them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from pydantic import ValidationError

from drkit.clock import wall_ms
from drkit.config import ClusterSettings
from drkit.drill.entry import DrillEntry
from drkit.errors import Failed, Refused
from drkit.flow_state.creation import ensure_compacted
from drkit.flow_state.names import drill_transactional_id, drills_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import QUIET, KafkaException, Producer, confluent_config
from drkit.kafka.reading.signed_log import SignedLog
from drkit.kafka.topics import describe_topics
from drkit.wire import Record

_WRITE_SECONDS: Final = 30.0


class DrillTopic:
    """The entries of a flow's drills on its target.

    :param source: alias of production's source
    """

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = drills_topic(source, target.alias)
        self._source, self._target = source, target
        self._exists = False
        self._entries: dict[bytes, DrillEntry] = {}
        self._log = SignedLog(target, self.name, self._take)

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster.connect(self._target)

    def load(self) -> list[DrillEntry]:
        """Return the entries; a record that is not one of a drill is left out.

        :raises DrkitError: the topic cannot be read
        """
        if not self._exists and self.name not in describe_topics(self._cluster, [self.name]):
            return []
        self._entries.clear()
        self._log.restart()
        try:
            self._log.load()
        finally:
            self._log.close()
        return list(self._entries.values())

    def _take(self, record: Record, why: str) -> None:
        if record.key is None or why:
            return
        entry = _entry(record.key, record.value) if record.value is not None else None
        self._entries.pop(record.key, None)
        if entry is not None:
            self._entries[record.key] = entry

    def put(self, *entries: DrillEntry) -> None:
        """Write entries, durably; the topic is created when it is missing.

        :raises DrkitError: one was not accepted
        """
        self._ensure()
        self._log.append(*map(_record, entries))

    def begin(self, entry: DrillEntry) -> None:
        """Write the entry of a drill that begins, if no other drill of the flow is under way.

        The transactional id fences another machine that begins one at the same time.

        :raises Refused: another drill is under way, or its due time has an entry
        :raises DrkitError: the topic cannot be read or written
        """
        self._ensure()
        own = {"transactional.id": drill_transactional_id(self._source, self._target.alias)}
        producer = Producer({**confluent_config(self._target), **own, "log_level": 0}, logger=QUIET)
        try:
            producer.init_transactions(_WRITE_SECONDS)
            _refuse_beside(self.load(), entry)
            producer.begin_transaction()
            key, value = _record(entry)
            headers = self._log.signatures.text_headers(key, value)
            producer.produce(self.name, value, key, partition=0, headers=headers)
            producer.commit_transaction(_WRITE_SECONDS)
        except KafkaException as error:
            raise Failed(
                "own_topic_unwritable", where=self._log.where, evidence=str(error.args[0])
            ) from error

    def _ensure(self) -> None:
        if not self._exists:
            ensure_compacted(self._cluster, self.name)
            self._exists = True


def _record(entry: DrillEntry) -> tuple[bytes, bytes]:
    return entry.key.encode(), entry.model_dump_json().encode()


def _entry(key: bytes, value: bytes) -> DrillEntry | None:
    """Return the entry in a record; None: it is not one of a drill, or has another key."""
    try:
        entry = DrillEntry.model_validate_json(value)
    except ValidationError:
        return None
    return entry if entry.key.encode() == key else None


def _refuse_beside(entries: Iterable[DrillEntry], entry: DrillEntry) -> None:
    for other in entries:
        if other.id and other.id != entry.id and other.is_running(wall_ms()):
            raise Refused(
                "drill_under_way", where=entry.flow, evidence=f"drill {other.id} by {other.runs_as}"
            )
        if entry.due_ms is not None and (other.name, other.due_ms) == (entry.name, entry.due_ms):
            raise Refused(
                "drill_due_time_taken", where=entry.name, evidence=f"drill {other.key}: {other.verdict}"
            )
