"""The topic on the source with the record of its fences: a log of one partition, kept for ever."""

from __future__ import annotations

from collections.abc import Collection
import json
from typing import Self
import uuid

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import MOST_REFUSED
from drkit.errors import DrkitError, Failed
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.names import ADOPTED, BEGUN, Adoptions, fence_topic
from drkit.flow_state.source_fence.entries import FenceEntry, FenceLog, FenceMark
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.signed_log import SignedLog
from drkit.kafka.topics import ALL_KEPT, describe_topics, ensure_own_topic
from drkit.wire import Record


class FenceTopic:
    """Reads and writes the record of a flow's fences on its source; in a ``with``, or closed by its user.

    Connections are made once and kept, and the log is read on from where it was read before: a switchover
    asks it while nothing takes writes.

    :param source: with the identity that administers the source
    """

    def __init__(self, source: ClusterSettings, flow: FlowSettings) -> None:
        self._source, self._flow = source, flow
        self.name = fence_topic(flow.source, flow.target)
        self._log = SignedLog(source, self.name, self._take, on_restart=self._begin)
        self._known: Cluster | None = None
        self._begin()

    def _begin(self) -> None:
        self._exists = self._is_ensured = False
        self._fences, self._refused, self._adoptions = FenceLog(), dict[str, str](), Adoptions()
        self._signed = FenceLog()
        """The entries since `drkit control adopt` began to sign all of them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections; a later call makes new ones, and reads all again."""
        self._known = None
        self._log.restart()
        self._begin()

    @property
    def where(self) -> str:
        """Topic and cluster, for errors."""
        return self._log.where

    @property
    def _cluster(self) -> Cluster:
        self._known = self._known or Cluster.connect(self._source)
        return self._known

    def exists(self) -> bool:
        """Return whether a run of the flow ever recorded a fence on its source. Raises DrkitError."""
        return self.name in describe_topics(self._cluster, [self.name])

    def read(self) -> FenceLog:
        """Read all entries; none where there is no such topic.

        :raises DrkitError: the source does not answer, or refuses
        """
        self._exists = self._exists or self.exists()
        if not self._exists:
            return FenceLog()
        try:
            self._log.load()
        except DrkitError:
            self.close()
            raise
        self._fences.unreadable = [f"{key}: {why}" for key, why in self._refused.items()]
        return self._fences

    def _take(self, record: Record, why: str) -> None:
        if record.key is None or record.value is None:
            return
        key = record.key.decode(errors="replace")
        if record.key == ADOPTED and not why and self._source.control is not None:
            if record.value == BEGUN:
                self._signed = FenceLog()
            if self._adoptions.take(record.offset, record.value):  # these are whole, and in their order
                self._fences, self._signed, self._refused = self._signed, FenceLog(), {}
            return
        self._refused.pop(key, None)
        if why:
            if len(self._refused) < MOST_REFUSED:
                self._refused[key] = why
            return
        try:
            entry = FenceEntry.decode(record.value)
        except Malformed as error:
            self._refused[key] = str(error)
            return
        for log in (self._fences, self._signed):
            if entry.token not in log.tokens:  # a replayed one adds no information
                log.take(entry)

    def append(self, *entries: FenceEntry) -> FenceLog:
        """Make entries durable (acks=all), and read everything back; entries of others may be before them.

        The topic is created where it is missing.

        :raises DrkitError: it was not accepted, or cannot be read back
        """
        if not self._is_ensured:
            ensure_own_topic(self._cluster, self.name, ALL_KEPT)
            self._is_ensured = True
        self._log.append(*((f"{e.run_id}/{e.token}".encode(), e.encode()) for e in entries))
        log = self.read()
        if missing := [e for e in entries if e.token not in log.tokens]:
            evidence = f"{missing[0].mark} of run {missing[0].run_id} was accepted, and is not there"
            raise Failed("own_topic_unwritable", where=self.where, evidence=evidence)
        return log

    def mark_opened(self, runs: Collection[str]) -> None:
        """Mark the target open by these runs, past OPEN by its journal. Repeatable. Raises DrkitError."""
        late = [
            r for r in self.read().records.values() if r.run_id in runs and r.mark is not FenceMark.OPENED
        ]
        if late:
            self.append(*(self.entry(FenceMark.OPENED, r.run_id, r.term) for r in late))

    def entry(self, mark: FenceMark, run_id: str, term: int, **more: object) -> FenceEntry:
        """A new entry of this flow; the further fields are those of :class:`FenceEntry`."""
        raw = {
            "mark": mark.value, "run_id": run_id, "token": uuid.uuid4().hex[:12], "flow": self._flow.name,
            "term": term, "at_ms": wall_ms(), **more,
        }  # fmt: skip
        return FenceEntry.decode(json.dumps(raw).encode())
