"""drkit's metrics for Prometheus, made at every scrape from the newest status; MirrorMaker 2's names too.

One table has name, kind, labels and meaning of each; docs/reference/metrics.md is generated from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drkit import observe
from drkit.checkpoints.group_ledger import RoundTotals
from drkit.counted import total
from drkit.min_max_mean import MinMaxMean
from drkit.model import FlowAliases, TopicPartition
from drkit.observe import MOST_GROUPS, MOST_PARTITIONS, OTHERS
from drkit.status.groups import GroupsSeen, GroupStatus
from drkit.status.model import Fault, FlowStatus, Loss, TopicStatus
from drkit.status.pair.model import PairAlarm, PairState
from drkit.status.progress import Moved, Totals

_FLOW: Final = ("source", "target")
_GROUP: Final = (*_FLOW, "group")
MM2_CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
_SPREADS: Final = (("", "mean"), ("_min", "least"), ("_max", "most"), ("_avg", "mean"))
_LATENCY: Final = "From reading a group's offsets until its checkpoint was durable"

GROUP_ROWS: Final = (
    ("drkit_checkpoint_age_seconds", "gauge", _FLOW, "Since the last successful checkpoint round."),
    ("drkit_checkpoint_round_seconds", "gauge", _FLOW, "How long the newest round took."),
    ("drkit_checkpoint_rounds_total", "counter", _FLOW, "Rounds of checkpoints."),
    ("drkit_checkpoint_rounds_failed_total", "counter", _FLOW, "Rounds that broke off for some groups."),
    ("drkit_groups", "gauge", (*_FLOW, "state"), "Groups that are ready, waiting, or not_ready."),
    ("drkit_group_ready", "gauge", _GROUP, "1: the group could move to the target now."),
    ("drkit_group_repeats", "gauge", _GROUP, "Offsets the group would reprocess."),
    ("drkit_group_left", "gauge", _GROUP, "Offsets the group would still have to read."),
    ("drkit_group_positions", "gauge", (*_FLOW, "verdict"), "Positions by what the newest round did."),
    ("drkit_group_writes_refused_total", "counter", (*_FLOW, "reason"), "Positions not written, per round."),
    *((MM2_CHECKPOINT + suffix, "gauge", _GROUP, f"{_LATENCY}: {which}, ms.") for suffix, which in _SPREADS),
)  # fmt: skip
Sample = tuple[str, tuple[str, ...], float | None]
STATES: Final = ("ready", "waiting", "not_ready")


def group_samples(
    flow: tuple[str, str], seen: GroupsSeen | None, totals: RoundTotals | None
) -> Iterator[Sample]:
    """Every value for one flow.

    :param totals: None where this process runs no rounds
    """
    if seen is not None:
        yield from _group_samples(flow, seen)
    if totals is not None:
        yield "drkit_checkpoint_rounds_total", flow, totals.rounds
        yield "drkit_checkpoint_rounds_failed_total", flow, totals.failed
        for reason, count in totals.refused.items():
            yield "drkit_group_writes_refused_total", (*flow, reason.lower()), count
        for group, spread in list(totals.latency_ms.items()):
            yield from _spread_samples(MM2_CHECKPOINT, (*flow, group), spread)


def _spread_samples(name: str, labels: tuple[str, ...], spread: MinMaxMean) -> Iterator[Sample]:
    return ((name + suffix, labels, getattr(spread, which)) for suffix, which in _SPREADS)


def _group_samples(flow: tuple[str, str], seen: GroupsSeen) -> Iterator[Sample]:
    yield "drkit_checkpoint_age_seconds", flow, seen.rounds.age_seconds
    yield "drkit_checkpoint_round_seconds", flow, seen.rounds.seconds
    for verdict, count in seen.rounds.verdicts.items():
        yield "drkit_group_positions", (*flow, verdict.lower()), count
    if seen.error:
        return  # the number of ready groups is unknown: emit no outdated figure
    states = Counter(dict.fromkeys(STATES, 0))
    states.update("ready" if g.ready else "not_ready" if g.faulty else "waiting" for g in seen.groups)
    for state, count in states.items():
        yield "drkit_groups", (*flow, state), count
    single, others = seen.groups[:MOST_GROUPS], seen.groups[MOST_GROUPS:]
    for group in single:
        yield from _one((*flow, group.group), [group])
    if others:
        yield from _one((*flow, OTHERS), list(others))


def _one(labels: tuple[str, ...], groups: list[GroupStatus]) -> Iterator[Sample]:
    yield "drkit_group_ready", labels, all(g.ready for g in groups)
    yield "drkit_group_repeats", labels, total(g.repeats for g in groups)
    yield "drkit_group_left", labels, total(g.left for g in groups)


PAIR_ROWS: Final = (
    ("drkit_pair_topics", "gauge", (*_FLOW, "state"),
     "Topics of both directions, by state; the states are those of drkit status."),
    ("drkit_pair_alarm_topics", "gauge", (*_FLOW, "fault"),
     "Topics with an alarm: both_open, both_closed, incomplete, unreplayed (see drkit status)."),
    ("drkit_held_run_topics", "gauge", _FLOW,
     "Topics of a failover or failback that is held: it waits for a person."),
    ("drkit_returning_partitions", "gauge", (*_FLOW, "in_step"),
     "Partitions of topics that are copied to an old primary after an unplanned failover: in step, or not."),
    ("drkit_unprotected_seconds", "gauge", _FLOW,
     "Since the earliest promotion of a topic that is not copied back, or not in step yet; 0 without one."),
    ("drkit_delta_whole_seconds", "gauge", _FLOW,
     "Until the active side may remove records written since a promotion; none without a limit."),
    ("drkit_delta_used_ratio", "gauge", _FLOW,
     "Used share of that time, or of retention.bytes; 0 without a limit."),
)  # fmt: skip


def pair_samples(flow: tuple[str, str], status: FlowStatus) -> Iterator[Sample]:
    """Every value for the pair of one flow."""
    pair = status.pair
    if pair is None:
        return
    for state in PairState:
        yield "drkit_pair_topics", (*flow, state.value), pair.count(state)
    for alarm in PairAlarm:
        yield "drkit_pair_alarm_topics", (*flow, alarm.value), len(pair.with_alarm(alarm))
    yield "drkit_held_run_topics", flow, sum(t.is_held for t in pair.topics)
    returning = [t for t in pair.topics if t.state is PairState.RETURNING]
    in_step = sum(t.in_step or 0 for t in returning)
    yield "drkit_returning_partitions", (*flow, "true"), in_step
    behind = sum(t.partitions or 0 for t in returning) - in_step
    yield "drkit_returning_partitions", (*flow, "false"), behind
    since, soonest = pair.since_ms, pair.soonest
    yield "drkit_unprotected_seconds", flow, 0 if since is None else max(0, status.at_ms - since) / 1000
    if soonest is not None and soonest.delta is not None and soonest.delta.until_ms is not None:
        yield "drkit_delta_whole_seconds", flow, (soonest.delta.until_ms - status.at_ms) / 1000
    unknown = any(t.delta is not None and t.delta.unknown for t in pair.topics)
    yield "drkit_delta_used_ratio", flow, pair.delta_used or (None if unknown else 0.0)


_DRILL: Final = ("source", "target", "drill", "kind")
"""Files for different pairs may have drills of one name."""
PASSED: Final = "drkit_drill_last_pass_timestamp_seconds"
VERDICT: Final = "drkit_drill_last_verdict"
OVERDUE: Final = "drkit_drill_overdue"
OWED: Final = "drkit_drill_cleanup_owed"

DRILL_ROWS: Final = (
    (
        PASSED,
        "gauge",
        _DRILL,
        "When the last drill that passed began, since 1970; none before the first pass.",
    ),
    (VERDICT, "gauge", (*_DRILL, "verdict"), "1 for the verdict of the last drill that ended."),
    (OVERDUE, "gauge", _DRILL, "1: it did not pass within max_age_days."),
    (OWED, "gauge", _DRILL, "1: what it made may still be there, see drkit drill cleanup."),
)
DrillSamples = Callable[[], Iterable[Sample]]


_PARTITION: Final = ("source", "target", "topic", "partition")
MM2: Final = "kafka_connect_mirror_mirrorsourceconnector_"
"""The JMX exporter's prefix for MirrorMaker 2's MBeans, as in existing dashboards."""
MM2_ROWS: Final = (
    (MM2 + "record_count", "gauge", _PARTITION, "Records copied since the start, by the target's topic."),
    (MM2 + "record_rate", "gauge", _PARTITION, "Records copied per second, between two looks."),
    (MM2 + "byte_count", "gauge", _PARTITION, "Bytes copied since the start."),
    (MM2 + "byte_rate", "gauge", _PARTITION, "Bytes copied per second between the two last looks."),
    *(
        (MM2 + name + suffix, "gauge", _PARTITION, f"{meaning}: {which} of the last epoch, ms.")
        for name, meaning in (
            ("record_age_ms", "Age of batches when they were fetched"),
            ("replication_latency_ms", "Age of batches when they stood on the target"),
        )
        for suffix, which in _SPREADS
    ),
)


@dataclass(slots=True)
class Count:
    """Records and bytes of one partition, also between two reports of its task."""

    first_end: int
    records: float = 0.0
    bytes: float = 0.0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0

    def see(self, end: int, moved: Moved | None, seconds: float) -> None:
        """Take the target's current end; between reports its growth counts as copied.

        :param seconds: since the last call
        """
        records, size = float(max(0, end - self.first_end)), 0.0
        if moved is not None and moved.target_end >= 0:
            grown = max(0, end - moved.target_end)
            each = moved.bytes / moved.records if moved.records else 0.0
            records, size = moved.records + grown, moved.bytes + grown * each
        before = (self.records, self.bytes)
        # Gaps of the target (markers) counted as records until the report: never count down.
        self.records, self.bytes = max(records, self.records), max(size, self.bytes)
        if seconds > 0:
            self.records_per_second = (self.records - before[0]) / seconds
            self.bytes_per_second = (self.bytes - before[1]) / seconds


def mm2_samples(
    flow: tuple[str, str],
    names: Mapping[TopicPartition, str],
    counts: Mapping[TopicPartition, Count],
    moved: Mapping[TopicPartition, Moved],
) -> Iterator[Sample]:
    """Yield every value of the partitions of one flow.

    :param names: of the copies of partitions
    """
    for tp, count in counts.items():
        labels = (*flow, names.get(tp, tp.topic), str(tp.partition))
        yield MM2 + "record_count", labels, count.records
        yield MM2 + "record_rate", labels, count.records_per_second
        yield MM2 + "byte_count", labels, count.bytes
        yield MM2 + "byte_rate", labels, count.bytes_per_second
        epoch = moved.get(tp)
        if epoch is not None and epoch.latency_ms.count:
            yield from _spread_samples(MM2 + "record_age_ms", labels, epoch.age_ms)
            yield from _spread_samples(MM2 + "replication_latency_ms", labels, epoch.latency_ms)


_TOPIC: Final = (*_FLOW, "topic")
_Faults = Mapping[FlowAliases, Iterable[Fault]]
_NO_LOSS: Final = Loss(None, None, None, exact=False, source_seen_seconds=None)


class MetricDescription(NamedTuple):
    """One metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


_TABLE: Final = tuple(MetricDescription(*row) for row in (
    ("drkit_flow_healthy", "gauge", _FLOW, "1: no fault; 0: at least one, see drkit_fault."),
    ("drkit_fault", "gauge", (*_FLOW, "fault"), "1 for every fault that the flow has now."),
    ("drkit_status_age_seconds", "gauge", _FLOW, "Age of the figures: since the newest look began."),
    ("drkit_lag_records", "gauge", _TOPIC, "Records of the source that are not on the target."),
    ("drkit_lag_bytes", "gauge", _TOPIC, "Their size, as batches of the source."),
    ("drkit_lag_seconds", "gauge", _TOPIC, "Age of the oldest record not on the target; 0 without one."),
    ("drkit_held_back_records", "gauge", _TOPIC,
     "Upper bound of records that open transactions on the source hold back; not in drkit_lag_records."),
    ("drkit_open_transaction_seconds", "gauge", (*_FLOW, "cluster"),
     "Age of the oldest open transaction that holds records back on a cluster; 0 without one."),
    ("drkit_rpo_records", "gauge", _FLOW,
     "Records lost if the primary died now, held back ones too; none where a silent one had nothing left."),
    ("drkit_rpo_bytes", "gauge", _FLOW, "Bytes lost if the primary died now."),
    ("drkit_rpo_seconds", "gauge", _FLOW,
     "Age of the oldest record lost if the primary died now; of a silent source since all was copied."),
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
    """When the look began, by a steady clock."""
    totals: Totals | None = None
    counts: dict[TopicPartition, Count] = field(default_factory=dict)

    def at(self, now: float) -> FlowStatus:
        """Return the status with its ages at a time of the steady clock."""
        return self.status.after(max(0.0, now - self.looked_at))

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
        if totals is None:  # a copying process removes them with its progress
            observe.keep((status.source, status.target), {p.topic for p in status.partitions})


@dataclass(frozen=True, eq=False)
class FlowCollector(Collector):
    """Makes the metrics of all flows at each scrape."""

    figures: Callable[[], Iterable[FlowFigures]]
    """Returns the current flows."""
    clock: Callable[[], float]
    """The steady clock of the figures."""
    faults: Callable[[float], _Faults] = lambda _now: {}
    """Of each flow at a time of that clock, the same as in the health check and on the page."""
    drills: DrillSamples = tuple
    """The samples of drills; must not wait for a cluster."""

    def collect(self) -> Iterator[Metric]:
        """Every family of the table, in its order."""
        families = {
            row.name: (CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily)(
                row.name, row.help, labels=row.labels
            )
            for row in _TABLE
        }
        now = self.clock()
        flows = (_samples(figures, now) for figures in self.figures())
        samples = [_health(self.faults(now)), *flows, self.drills()]
        for each in samples:
            for name, labels, value in each:
                if value is not None:
                    families[name].add_metric(labels, float(value))
        yield from families.values()


def _samples(figures: FlowFigures, now: float) -> Iterator[Sample]:
    status, totals = figures.at(now), figures.totals
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


def _health(faults: _Faults) -> Iterator[Sample]:
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


def _topics(status: FlowStatus) -> Iterator[TopicStatus]:
    """Each topic; those beyond the limit as one, so that the number of labels is bounded."""
    single, rest = status.topics[:MOST_PARTITIONS], status.topics[MOST_PARTITIONS:]
    yield from single
    if rest:
        yield TopicStatus(
            *(OTHERS, OTHERS, sum(t.partitions for t in rest)),
            records=sum(t.records or 0 for t in rest),
            bytes=sum(t.bytes or 0 for t in rest),
            seconds=max(t.seconds or 0.0 for t in rest),
            exact=all(t.exact for t in rest),
            held_back=sum(t.held_back for t in rest),
        )
