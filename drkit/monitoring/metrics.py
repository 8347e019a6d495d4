"""drkit's metrics for Prometheus, made at every scrape from the newest status; MirrorMaker 2's names too.

One table has name, kind, labels and meaning of each; docs/reference/metrics.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drkit import observe
from drkit.model import FlowAliases, TopicPartition
from drkit.monitoring.metrics_groups import GROUP_ROWS, group_samples
from drkit.monitoring.metrics_mm2 import MM2, MM2_ROWS, Count, mm2_samples
from drkit.monitoring.metrics_pair import DRILL_ROWS, PAIR_ROWS, DrillSamples, pair_samples
from drkit.observe import MOST_PARTITIONS, OTHERS
from drkit.status.model import Fault, FlowStatus, Loss
from drkit.status.progress import Totals

_FLOW: Final = ("source", "target")
_TOPIC: Final = (*_FLOW, "topic")
_Faults = Mapping[FlowAliases, Iterable[Fault]]
_NO_LOSS: Final = Loss(None, None, None, exact=False, source_seen_seconds=None)

_UNITS: Final = (
    ("seconds", "seconds"), ("byte_rate", "bytes/s"), ("record_rate", "records/s"), ("_ms", "ms"),
    ("byte", "bytes"), ("repeats", "offsets"), ("left_out", "records"), ("left", "offsets"),
    ("frontier", "offset"), ("healthy", "0 or 1"), ("ready", "0 or 1"), ("fault", "1"), ("record", "records"),
    ("ratio", "0 to 1"), ("drill_last_verdict", "1"), ("drill", "0 or 1"),
)  # fmt: skip


class MetricDescription(NamedTuple):
    """One metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str

    @property
    def unit(self) -> str:
        """Unit of the value: base units for Prometheus, milliseconds for MirrorMaker 2's names."""
        last = self.name.removeprefix(MM2)
        return next((unit for part, unit in _UNITS if part in last), "count")


_TABLE: Final = tuple(MetricDescription(*row) for row in (
    ("drkit_flow_healthy", "gauge", _FLOW, "1: no fault; 0: at least one, see drkit_fault."),
    ("drkit_fault", "gauge", (*_FLOW, "fault"), "1 for every fault that the flow has now."),
    ("drkit_status_age_seconds", "gauge", _FLOW, "Age of the figures: time since both clusters were asked."),
    ("drkit_lag_records", "gauge", _TOPIC, "Records of the source that are not on the target."),
    ("drkit_lag_bytes", "gauge", _TOPIC, "Their size, as batches of the source."),
    ("drkit_lag_seconds", "gauge", _TOPIC, "Age of the oldest record not on the target; 0 without one."),
    ("drkit_held_back_records", "gauge", _TOPIC,
     "Upper bound of records that open transactions on the source hold back; not in drkit_lag_records."),
    ("drkit_open_transaction_seconds", "gauge", (*_FLOW, "cluster"),
     "Age of the oldest open transaction that holds records back on a cluster; 0 without one."),
    ("drkit_rpo_records", "gauge", _FLOW,
     "Records lost if the primary died now; what is held back counts as lost."),
    ("drkit_rpo_bytes", "gauge", _FLOW, "Bytes lost if the primary died now."),
    ("drkit_rpo_seconds", "gauge", _FLOW, "Age of the oldest record lost if the primary died now."),
    ("drkit_source_seen_age_seconds", "gauge", _FLOW, "Age of what is known of the source; 0: it answers."),
    ("drkit_heartbeat_age_seconds", "gauge", _FLOW, "Age of the newest heartbeat on the target."),
    ("drkit_heartbeat_delay_seconds", "gauge", _FLOW, "Heartbeat latency from source to target."),
    ("drkit_fence_owed_topics", "gauge", _FLOW, "Topics of the source that a failover could not fence yet."),
    ("drkit_map_segments", "gauge", _FLOW, "Segments of the offset map."),
    ("drkit_epoch_gap_seconds", "gauge", _FLOW, "Between the two last epochs: nothing was copied."),
    ("drkit_stopped_partitions", "gauge", _FLOW, "Partitions that are left alone, see the events."),
    ("drkit_appends_total", "counter", _FLOW, "Produce requests of copy tasks."),
    ("drkit_resyncs_total", "counter", _FLOW, "Times a partition had to read its state from the target."),
    *MM2_ROWS, *GROUP_ROWS, *PAIR_ROWS, *DRILL_ROWS,
))  # fmt: skip
TABLE: Final = {row.name: row for row in _TABLE}


@dataclass(slots=True)
class FlowFigures:
    """One flow's figures for the next scrape."""

    status: FlowStatus
    looked_at: float
    totals: Totals | None = None
    counts: dict[TopicPartition, Count] = field(default_factory=dict)

    def renew(self, status: FlowStatus, looked_at: float, totals: Totals | None) -> None:
        """Take a newer status.

        :param looked_at: when, by a steady clock
        """
        seconds, moved = looked_at - self.looked_at, totals.moved if totals else {}
        self.status, self.looked_at, self.totals = status, looked_at, totals
        counts = {}
        for p in status.partitions[:MOST_PARTITIONS]:
            at = TopicPartition(p.topic, p.partition)
            count = self.counts.get(at)
            if p.target_end is not None:
                count = count or Count(p.target_end)
                count.see(p.target_end, moved.get(at), seconds)
            if count is not None:
                counts[at] = count
        if not status.partitions:
            return  # no answer
        self.counts = counts
        if totals is None:  # a copying process forgets them with its progress
            observe.keep((status.source, status.target), {p.topic for p in status.partitions})


class FlowCollector(Collector):
    """Makes the metrics of all flows at each scrape.

    :param figures: the current flows
    :param clock: the steady clock of the figures
    :param faults: of each flow at a time of that clock, the same as in the health check and on the page
    :param drills: the samples of drills; must not wait for a cluster
    """

    def __init__(
        self,
        figures: Callable[[], Iterable[FlowFigures]],
        clock: Callable[[], float],
        faults: Callable[[float], _Faults] = lambda _now: {},
        drills: DrillSamples = tuple,
    ) -> None:
        self._figures, self._faults, self._drills = figures, faults, drills
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Every family of the table, in its order."""
        families = {
            row.name: (CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily)(
                row.name, row.help, labels=row.labels
            )
            for row in _TABLE
        }
        now = self._clock()
        flows = (_samples(figures, now) for figures in self._figures())
        samples = [_health(self._faults(now)), *flows, self._drills()]
        for each in samples:
            for name, labels, value in each:
                if value is not None:
                    families[name].add_metric(labels, float(value))
        yield from families.values()

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not send requests."""
        return iter(())


def _samples(figures: FlowFigures, now: float) -> Iterator[tuple[str, tuple[str, ...], float | None]]:
    status, totals = figures.status, figures.totals
    loss = status.loss_now or _NO_LOSS
    flow = (status.source, status.target)
    beat = status.heartbeat
    yield from (
        ("drkit_status_age_seconds", flow, now - figures.looked_at),
        ("drkit_rpo_records", flow, loss.records),
        ("drkit_rpo_bytes", flow, loss.bytes),
        ("drkit_rpo_seconds", flow, loss.seconds),
        ("drkit_source_seen_age_seconds", flow, loss.source_seen_seconds),
        ("drkit_heartbeat_age_seconds", flow, beat.age_seconds if beat else None),
        ("drkit_heartbeat_delay_seconds", flow, beat.delay_seconds if beat else None),
        ("drkit_fence_owed_topics", flow, len(status.pending_fence.topics) if status.pending_fence else 0),
        ("drkit_map_segments", flow, status.map_segments),
    )
    for cluster in (status.source, status.target):
        ages = [t.age_seconds or 0.0 for t in status.open_transactions if t.cluster == cluster]
        yield "drkit_open_transaction_seconds", (*flow, cluster), max(ages, default=0.0)
    if totals is not None:
        yield "drkit_epoch_gap_seconds", flow, totals.epoch_gap_seconds
        yield "drkit_stopped_partitions", flow, len(totals.stopped)
        yield "drkit_appends_total", flow, totals.requests
        yield "drkit_resyncs_total", flow, totals.resyncs
    for topic in _topics(status):
        name = (*flow, topic.topic)
        yield "drkit_lag_records", name, topic.records
        yield "drkit_lag_bytes", name, topic.bytes
        yield "drkit_lag_seconds", name, topic.seconds
        yield "drkit_held_back_records", name, topic.held_back
    yield from group_samples(flow, status.groups, totals.groups if totals is not None else None)
    yield from pair_samples(flow, status)
    names = {TopicPartition(p.topic, p.partition): p.target_topic for p in status.partitions}
    yield from mm2_samples(flow, names, figures.counts, totals.moved if totals is not None else {})


def _health(faults: _Faults) -> Iterator[tuple[str, tuple[str, ...], float | None]]:
    for flow, found in faults.items():
        codes = {f.code for f in found}
        yield "drkit_flow_healthy", flow, not codes
        for code in sorted(codes):
            yield "drkit_fault", (*flow, code), 1


class Labelled(Collector):
    """The metrics of some collectors, with fixed labels."""

    def __init__(self, collectors: Iterable[Collector], labels: Mapping[str, str]) -> None:
        self._collectors, self._labels = tuple(collectors), dict(labels)

    def collect(self) -> Iterator[Metric]:
        """Every family once; a metric's own labels win."""
        for collector in self._collectors:
            for family in collector.collect():
                if self._labels:
                    family.samples = [s._replace(labels={**self._labels, **s.labels}) for s in family.samples]
                yield family

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not send requests."""
        return iter(())


class _Topic(NamedTuple):
    topic: str
    records: float | None
    bytes: float | None
    seconds: float | None
    held_back: float


def _topics(status: FlowStatus) -> Iterator[_Topic]:
    """Each topic; those beyond the limit as one, so that the number of labels is bounded."""
    single, rest = status.topics[:MOST_PARTITIONS], status.topics[MOST_PARTITIONS:]
    yield from (_Topic(t.topic, t.records, t.bytes, t.seconds, t.held_back) for t in single)
    if rest:
        yield _Topic(
            OTHERS,
            sum(t.records or 0 for t in rest),
            sum(t.bytes or 0 for t in rest),
            max(t.seconds or 0.0 for t in rest),
            sum(t.held_back for t in rest),
        )


def documentation() -> str:
    """The table of all metrics in Markdown, as in docs/reference/metrics.md."""
    told = []
    for metric, labels in observe.COUNTED.items():
        (family,) = metric.collect()
        name = family.name + ("_total" if family.type == "counter" else "")
        told.append(MetricDescription(name, family.type, labels, family.documentation))
    lines = ["| metric | kind | unit | labels | meaning |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{r.name}` | {r.kind} | {r.unit} | {', '.join(r.labels)} | {r.help} |" for r in (*told, *_TABLE)
    ]
    return "\n".join(lines) + "\n"
