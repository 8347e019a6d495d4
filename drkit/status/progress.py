"""Progress of a flow: from its tasks' reports, and between reports from the ends of both clusters."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from drkit import observe
from drkit.checkpoints.group_ledger import RoundTotals
from drkit.clock import monotonic
from drkit.config import FlowSettings
from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import list_offsets
from drkit.min_max_mean import MinMaxMean
from drkit.model import TopicPartition

_EXPIRED: Final = "expired"
_LEASE_HINT: Final = "check the target's brokers, hanging transactions, and whether this machine stood still"


class Sample(NamedTuple):
    """Progress of a running flow at one moment."""

    records_per_second: float
    lag: int | None
    """Source offsets not yet copied; None until the first epoch has reported."""
    records: int
    """Copied records: reported by ended epochs, plus the target's growth since then."""


@dataclass(slots=True)
class Moved:
    """Copied data of one partition since the start, as its tasks reported."""

    records: int = 0
    bytes: int = 0
    target_end: int = -1
    age_ms: MinMaxMean = field(default_factory=MinMaxMean)
    """Age of batches when they were fetched, in the last epoch that moved something."""
    latency_ms: MinMaxMean = field(default_factory=MinMaxMean)
    """Age of batches when they were on the target, in the same epoch."""


@dataclass(slots=True)
class Totals:
    """Totals of a flow since its start."""

    records: int = 0
    bytes: int = 0
    epochs: int = 0
    resyncs: int = 0
    requests: int = 0
    """Produce requests."""
    epoch_gap_seconds: float | None = None
    """Time without copying between the last two epochs."""
    peak_memory_bytes: int = 0
    stopped: dict[str, str] = field(default_factory=dict)
    """Partition → why it is not copied."""
    frontiers: dict[TopicPartition, int] = field(default_factory=dict)
    moved: dict[TopicPartition, Moved] = field(default_factory=dict)
    looped: dict[int, int] = field(default_factory=dict)
    """Producer of an opposite flow → records that were left out."""
    groups: RoundTotals = field(default_factory=RoundTotals)


class Progress:
    """Adds up reports and looks at both clusters when asked."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster) -> None:
        self.totals = Totals()
        self._name, self._flow = flow.name, (flow.source, flow.target)
        self._source = source
        self._target = target
        self._positions: dict[TopicPartition, tuple[int, int]] = {}
        self._began: dict[TopicPartition, int] = {}
        """End offset of each target partition at the first look."""
        self._last: tuple[float, int] | None = None
        self._epoch_ended: float | None = None

    def epoch_ended(self, reports: Sequence[Mapping[str, Any]], topics: Container[str] | None = None) -> None:
        """Take the reports of all tasks of one epoch.

        :param topics: the topics that are not gone: others are forgotten. With None all stay,
            as a copy with an end knows that by the partitions with which it began
        """
        totals = self.totals
        self._gap(reports)
        totals.epochs += 1
        observe.epoch_ended(self._flow)
        if ended := [r for r in reports if r["ended"] == _EXPIRED]:
            observe.event("lease_not_seen", level="warning", flow=self._name, hint=_LEASE_HINT,
                          tasks=len(ended))  # fmt: skip
        for report in reports:
            totals.records += report["records"]
            totals.bytes += report["bytes"]
            totals.resyncs += report["resyncs"]
            totals.requests += report["requests"]
            totals.peak_memory_bytes = max(totals.peak_memory_bytes, report["peak_memory_bytes"])
            for part in report["partitions"]:
                self._partition(part)
            for producer, records in report["looped"].items():
                number = int(producer)  # a JSON key is text
                totals.looped[number] = totals.looped.get(number, 0) + records
                observe.left_out(self._flow, number, records)
        if topics is not None:
            self._forget_others(topics)

    def _forget_others(self, topics: Container[str]) -> None:
        totals = self.totals
        by_partition: list[dict[TopicPartition, Any]] = [totals.moved, totals.frontiers]
        for entries in [*by_partition, self._positions, self._began]:
            for tp in [tp for tp in list(entries) if tp.topic not in topics]:
                del entries[tp]
        for name in [name for name in list(totals.stopped) if name.rpartition("-")[0] not in topics]:
            del totals.stopped[name]
        observe.keep(self._flow, topics)

    def stopped(self, at: TopicPartition, reason: str) -> None:
        """Record that a task stopped a partition: it is not copied until a report says otherwise."""
        self.totals.stopped[str(at)] = reason

    def _gap(self, reports: Sequence[Mapping[str, Any]]) -> None:
        now, before = monotonic(), self._epoch_ended
        self._epoch_ended = now
        if before is not None and reports:
            at_work = max(r["seconds"] - r["startup_seconds"] for r in reports)
            self.totals.epoch_gap_seconds = max(0.0, now - before - at_work)

    def _partition(self, part: Mapping[str, Any]) -> None:
        tp = TopicPartition(part["topic"], part["partition"])
        self.totals.stopped.pop(str(tp), None)
        if part["state"] == "stopped":
            self.totals.stopped[str(tp)] = part["reason"]
        else:
            self.totals.frontiers[tp] = part["frontier"]
            self._positions[tp] = (part["frontier"], part["target_end"])
        moved = self.totals.moved.setdefault(tp, Moved())
        moved.records += part["records"]
        moved.bytes += part["bytes"]
        if part["state"] != "stopped":
            moved.target_end = part["target_end"]
        if part["records"]:
            moved.age_ms, moved.latency_ms = MinMaxMean(**part["age_ms"]), MinMaxMean(**part["latency_ms"])
        observe.copied(
            self._flow, *tp, records=part["records"], size=part["bytes"], batches=part["batches"],
            frontier=part["frontier"],
        )  # fmt: skip

    def sample(self, leases: Iterable[PartitionAssignment]) -> Sample:
        """Return records per second since the last sample, the current lag, and the copied records.

        :raises DrkitError: a cluster does not answer
        """
        pairs = {
            TopicPartition(x.source_topic, x.partition): TopicPartition(x.target_topic, x.partition)
            for x in leases
            if str(TopicPartition(x.source_topic, x.partition)) not in self.totals.stopped
        }
        ends = list_offsets(self._source, pairs, "latest", committed=True)
        return self.sampled(pairs, ends, list_offsets(self._target, pairs.values(), "latest"))

    def sampled(
        self,
        pairs: Mapping[TopicPartition, TopicPartition],
        ends: Mapping[TopicPartition, int],
        copied: Mapping[TopicPartition, int],
    ) -> Sample:
        """Return the sample for given ends.

        :param pairs: source partition → target partition
        :param ends: of the source, committed
        :param copied: of the target
        """
        lag: int | None = 0
        records = self.totals.records
        for tp, target_at in pairs.items():
            position, end = self._positions.get(tp), copied[target_at]
            # Between reports the target's growth is what was copied; holes make that a lower bound.
            grown = max(0, end - (position[1] if position is not None else self._began.setdefault(tp, end)))
            records += grown
            if position is None or lag is None:
                lag = None
                continue
            lag += max(0, ends[tp] - position[0] - grown)
        return Sample(self._rate(sum(copied.values())), lag, records)

    def _rate(self, total: int) -> float:
        now, before = monotonic(), self._last
        self._last = (now, total)
        if before is None or now <= before[0]:
            return 0.0
        return max(0.0, (total - before[1]) / (now - before[0]))
