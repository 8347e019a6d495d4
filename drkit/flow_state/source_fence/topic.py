"""The topic on the source with the record of its fences: a log of one partition, kept for ever."""

from __future__ import annotations

import json
from typing import Final, Self
import uuid

from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import signed, verify
from drkit.errors import DrkitError, Failed
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.names import fence_topic
from drkit.flow_state.source_fence.entries import FenceEntry, FenceLog, FenceMark
from drkit.flow_state.topic_clients import state_consumer, state_producer
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import (
    OFFSET_BEGINNING,
    ConfluentPartition,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from drkit.kafka.own_topics import appeared, create_own_topic
from drkit.kafka.permit import may_send
from drkit.kafka.reading.groupless import is_passed_over
from drkit.kafka.reading.headers import headers_of
from drkit.kafka.reading.log_end import LogEndReader
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition

_WRITE_SECONDS: Final = 30.0
_READ_SECONDS: Final = 20.0


class FenceTopic:
    """Reads and writes the record of a flow's fences on its source; in a ``with``, or closed by its user.

    Connections are made once and kept, and the log is read on from where it was read before: a switchover
    asks it while nothing takes writes.

    :param source: with the identity that administers the source
    """

    def __init__(self, source: ClusterSettings, flow: FlowSettings) -> None:
        self._source, self._flow = source, flow
        self.name = fence_topic(flow.source, flow.target)
        self._known: Cluster | None = None
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._log_end = LogEndReader(source, TopicPartition(self.name, 0))
        self._begin()

    def _begin(self) -> None:
        self._log, self._position, self._refused = FenceLog(), 0, dict[str, str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections; a later call makes new ones."""
        if self._consumer is not None:
            self._consumer.close()
        self._log_end.close()
        self._known = self._consumer = self._producer = None
        self._begin()

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return f"{self.name} on {self._source.alias}"

    @property
    def _cluster(self) -> Cluster:
        self._known = self._known or Cluster.connect(self._source)
        return self._known

    def exists(self) -> bool:
        """Whether a planned run of the flow ever fenced its source. Raises DrkitError."""
        return self.name in describe_topics(self._cluster, [self.name])

    def read(self) -> FenceLog:
        """Read all entries; none where there is no such topic.

        :raises DrkitError: the source does not answer, or refuses
        """
        if self._consumer is None:
            if not self.exists():
                return FenceLog()
            self._consumer = state_consumer(self._source, self._flow.target)
        try:
            self._read_on(self._consumer)
        except KafkaException as error:
            self.close()
            raise self._cluster.error(error.args[0], "read the record of the fence", self.name) from error
        except DrkitError:
            self.close()
            raise
        return self._log

    def _read_on(self, consumer: Consumer) -> None:
        """Take the entries up to the topic's end, which is asked first.

        :raises KafkaException: the source refuses
        :raises DrkitError: it could not be read to its end in time
        """
        deadline = monotonic() + _READ_SECONDS
        end = self._log_end.ask(_READ_SECONDS).replicated
        if end < self._position or not self._position:
            self._begin()  # the topic was recreated
            consumer.assign([ConfluentPartition(self.name, 0, OFFSET_BEGINNING)])
        while self._position < end:
            message = consumer.poll(0.1)
            if message is None:
                if monotonic() > deadline:
                    raise self._unread(f"offset {self._position} of {end} after {_READ_SECONDS:.0f} s")
                continue
            error = message.error()
            if error is None:
                self._position = (message.offset() or 0) + 1
                self._take(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  the constant's only name
                self._position = max(self._position, message.offset() or 0)
            elif not is_passed_over(error):
                raise KafkaException(error)
        self._log.unreadable = [f"{key}: {why}" for key, why in self._refused.items()]

    def _unread(self, evidence: str) -> Failed:
        return Failed("fence_record_unreadable", where=self.where, evidence=evidence)

    def _take(self, message: Message) -> None:
        raw, value = message.key() or b"", message.value()
        if not isinstance(raw, bytes) or not isinstance(value, bytes):
            return
        key = raw.decode(errors="replace")
        self._refused.pop(key, None)
        if why := verify(self._source.control, self.name, raw, value, headers_of(message)):
            self._refused[key] = why
            return
        try:
            entry = FenceEntry.decode(value)
        except Malformed as error:
            self._refused[key] = str(error)
            return
        if entry.token not in self._log.tokens:  # one that is replayed says nothing new
            self._log.take(entry)

    def append(self, entry: FenceEntry) -> FenceLog:
        """Make an entry durable (acks=all), and read everything back; entries of others may be before it.

        The topic is created where it is missing.

        :raises DrkitError: it was not accepted, or cannot be read back
        """
        if self._consumer is None and not self.exists():
            configs = {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "unclean.leader.election.enable": "false",
            }
            create_own_topic(self._cluster, self.name, configs)
            appeared(self._cluster, self.name)
        self._write(entry)
        return self._read_back(entry)

    def _write(self, entry: FenceEntry) -> None:
        reported: list[KafkaError | None] = []
        key, value = f"{entry.run_id}/{entry.token}".encode(), entry.encode()
        may_send()
        self._producer = producer = self._producer or state_producer(self._source)
        producer.produce(
            self.name, value, key, partition=0, on_delivery=lambda error, _: reported.append(error),
            headers=signed(self._source.control, self.name, key, value),
        )  # fmt: skip
        producer.flush(_WRITE_SECONDS)
        if reported and reported[0] is not None:
            raise self._cluster.error(reported[0], "write the record of the fence", self.name)
        if not reported:
            raise Failed(
                "fence_record_unwritable", where=self.where, evidence=f"no answer in {_WRITE_SECONDS:.0f} s"
            )

    def _read_back(self, entry: FenceEntry) -> FenceLog:
        log = self.read()
        if entry.token not in log.tokens:
            raise Failed(
                "fence_entry_vanished", where=self.where, evidence=f"{entry.mark} of run {entry.run_id}"
            )
        return log

    def entry(self, mark: FenceMark, run_id: str, term: int, **more: object) -> FenceEntry:
        """A new entry of this flow; the further fields are those of :class:`FenceEntry`."""
        raw = {
            "mark": mark.value, "run_id": run_id, "token": uuid.uuid4().hex[:12], "flow": self._flow.name,
            "term": term, "at_ms": wall_ms(), **more,
        }  # fmt: skip
        return FenceEntry.decode(json.dumps(raw).encode())
