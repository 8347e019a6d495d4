"""The topic on the source with the record of its fences: a log of one partition, kept for ever."""

from __future__ import annotations

import json
from typing import Final
import uuid

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import signed
from drkit.errors import Failed
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.names import fence_topic
from drkit.flow_state.source_fence.entries import FenceEntry, FenceLog, FenceMark
from drkit.flow_state.topic_clients import state_producer
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError
from drkit.kafka.own_topics import appeared, create_own_topic
from drkit.kafka.permit import may_send
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.topics import describe_topics

_WRITE_SECONDS: Final = 30.0


class FenceTopic:
    """Reads and writes the record of a flow's fences on its source.

    :param source: with the identity that administers the source
    """

    def __init__(self, source: ClusterSettings, flow: FlowSettings) -> None:
        self._source, self._flow = source, flow
        self.name = fence_topic(flow.source, flow.target)

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return f"{self.name} on {self._source.alias}"

    def exists(self) -> bool:
        """Whether a planned run of the flow ever fenced its source. Raises DrkitError."""
        return self.name in describe_topics(Cluster.connect(self._source), [self.name])

    def read(self) -> FenceLog:
        """Read all entries; none where there is no such topic.

        :raises DrkitError: the source does not answer, or refuses
        """
        # Every entry has a key of its own, so the newest values are all entries in the order of the log.
        found = newest_values(Cluster.connect(self._source), [self.name], verified=True).get(self.name)
        log = FenceLog()
        if found is None:
            return log
        for key, why in found.refused.items():
            log.unreadable.append(f"{key.decode(errors='replace')}: {why}")
        for key, value in found.items():
            try:
                log.take(FenceEntry.decode(value))
            except Malformed as error:
                log.unreadable.append(f"{key.decode(errors='replace')}: {error}")
        return log

    def append(self, entry: FenceEntry) -> FenceLog:
        """Make an entry durable (acks=all), and read everything back; entries of others may be before it.

        The topic is created where it is missing.

        :raises DrkitError: it was not accepted, or cannot be read back
        """
        cluster = Cluster.connect(self._source)
        if not self.exists():
            configs = {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "unclean.leader.election.enable": "false",
            }
            create_own_topic(cluster, self.name, configs)
            appeared(cluster, self.name)
        self._write(cluster, entry)
        return self._read_back(entry)

    def _write(self, cluster: Cluster, entry: FenceEntry) -> None:
        reported: list[KafkaError | None] = []
        key, value = f"{entry.run_id}/{entry.token}".encode(), entry.encode()
        may_send()
        producer = state_producer(self._source)
        producer.produce(
            self.name, value, key, partition=0, on_delivery=lambda error, _: reported.append(error),
            headers=signed(self._source.control, self.name, key, value),
        )  # fmt: skip
        producer.flush(_WRITE_SECONDS)
        if reported and reported[0] is not None:
            raise cluster.error(reported[0], "write the record of the fence", self.name)
        if not reported:
            raise Failed(
                "the record of the fence cannot be written",
                where=self.where,
                evidence=f"no answer in {_WRITE_SECONDS:.0f} s",
                hint="check the in-sync replicas of the source, then repeat",
            )

    def _read_back(self, entry: FenceEntry) -> FenceLog:
        log = self.read()
        if entry.token not in log.tokens:
            raise Failed(
                "an entry of the fence's record that was acknowledged cannot be read back",
                where=self.where,
                evidence=f"{entry.mark} of run {entry.run_id}",
                hint="check the topic's in-sync replicas and unclean.leader.election.enable = false",
            )
        return log

    def entry(self, mark: FenceMark, run_id: str, term: int, **more: object) -> FenceEntry:
        """A new entry of this flow; the further fields are those of :class:`FenceEntry`."""
        raw = {
            "mark": mark.value, "run_id": run_id, "token": uuid.uuid4().hex[:12], "flow": self._flow.name,
            "term": term, "at_ms": wall_ms(), **more,
        }  # fmt: skip
        return FenceEntry.decode(json.dumps(raw).encode())
