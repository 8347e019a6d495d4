"""The current state of a process's flows: for metrics, health check and page."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest

from drkit import observe
from drkit.background import Background
from drkit.clock import Seconds, busy, monotonic
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.model import FlowAliases
from drkit.monitoring.metrics import DrillSamples, FlowCollector, FlowFigures, Labelled
from drkit.status.groups import worst_first
from drkit.status.lag.held_back import HANGING, hanging
from drkit.status.model import Fault, FlowStatus
from drkit.status.pair.model import PairAlarm, PairState
from drkit.status.pair.text import pair_lines
from drkit.status.paired import PairedCollector
from drkit.status.progress import Progress

USUAL_SHARE: Final = 10
"""A look may take a tenth of the time."""
_HASTY: Final = 2
"""A third of the time."""
_LONGEST_SECONDS: Final = 15.0
"""The longest pause, whatever a look costs."""


def share_of_looks(usual: float, *, due: bool, whole: bool) -> float:
    """Return the pause after a look, as a multiple of its duration.

    A failover uses the last recorded source ends. While that record is not sufficient, the next look comes
    sooner than its cost normally allows.

    :param usual: the pause with a sufficient record
    :param due: the last look has unrecorded results, as after a turn: the next look comes at once
    :param whole: the record has all partitions, or no further one is expected soon; False while the copy of
        a new one begins
    """
    if due:
        return 0.0
    return usual if whole else min(usual, _HASTY)


class PairEvents:
    """Emits events for changes between looks."""

    def __init__(self) -> None:
        self._last: tuple[PairState, tuple[PairAlarm, ...]] | None = None

    def see(self, status: FlowStatus) -> None:
        """Emit an event if the state or the alarms have changed since the last look.

        At its start a process emits none for a pair that is protected or unknown.
        """
        pair = status.pair
        if pair is None:
            return
        current, last = (pair.state, pair.alarms), self._last
        self._last = current
        quiet = last is None and not pair.alarms and pair.state in {PairState.PROTECTED, PairState.UNKNOWN}
        if current == last or quiet:
            return
        well = pair.state is PairState.PROTECTED and not pair.alarms
        observe.event(
            "pair_changed", level="info" if well else "warning", flow=status.flow, state=pair.state.value,
            was="" if last is None else last[0].value, alarms=[a.value for a in pair.alarms],
            evidence="; ".join(f"{line.word} {line.text}" for line in pair_lines(pair)),
        )  # fmt: skip


LOOK_SECONDS: Final = 5.0
QUIET_SECONDS: Final = 10.0
"""Between two looks without requests for metrics: only to record the source's ends."""
_REMEMBER_SECONDS: Final = 10.0
_GLANCE_SECONDS: Final = 0.5
_HISTORY: Final = 720
_STALE_SECONDS: Final = 30.0
"""Older figures are a fault: the looks themselves take long."""
_START_SECONDS: Final = 60.0
_SHOWN_TOPICS: Final = 200
_SHOWN_GROUPS: Final = 50
_STARTING: Final = frozenset({"checkpoints_stale", "groups_not_ready"})
"""Faults ignored at a flow's start: its first rounds run some seconds after its first lease."""

_NOTHING: Final[Mapping[str, str]] = {}


class Job(Protocol):
    """A flow that this process runs, or only watches: then its progress is unknown."""

    flow: FlowSettings
    progress: Progress | None


class FlowWatch(Background):
    """Looks at one flow repeatedly, from its own thread.

    :param share: least ratio of the pause between two looks to the duration of a look
    :param groups: look at the groups, too, which is most of the work where there are many
    :param faults: returns further faults of this process
    """

    def __init__(
        self,
        settings: Settings,
        job: Job,
        failure: Callable[[], DrkitError | None] = lambda: None,
        seconds: float = LOOK_SECONDS,
        share: float = USUAL_SHARE,
        *,
        groups: bool = True,
        faults: Callable[[], tuple[Fault, ...]] = tuple,
    ) -> None:
        super().__init__(f"status {job.flow.name}", patience=1.0)
        self._own_faults = faults
        self._share, self._groups = share, groups
        self._settings, self._job = settings, job
        self._failure, self._seconds = failure, seconds
        self._began = monotonic()
        self._remembered = float("-inf")
        self.history: deque[tuple[int, int | None, float | None, float | None]] = deque(maxlen=_HISTORY)
        """Time in ms, lag in records, RPO in seconds, delay of heartbeats in seconds."""
        self.figures: FlowFigures | None = None
        self._hanging: set[tuple[str, str, int, int, int]] = set()
        self._pair = PairEvents()

    @property
    def aliases(self) -> FlowAliases:
        """Source and target of the flow."""
        return self._job.flow.aliases

    @property
    def name(self) -> str:
        """The flow's name."""
        return self.aliases.name

    @property
    def rpo_seconds(self) -> float:
        """The acceptable loss, in seconds."""
        return self._settings.failover.rpo_seconds

    @property
    def lag(self) -> int | None:
        """Records that were not copied at the last look at both clusters, or None if unknown."""
        return self.figures.status.loss.records if self.figures is not None else None

    def age(self, now: float) -> float | None:
        """Return the seconds since the newest look began, or None before the first."""
        return None if self.figures is None else round(now - self.figures.looked_at, 1)

    def faults(self, now: float) -> tuple[Fault, ...]:
        """Current faults, outdated figures included; a new flow has time until its first look."""
        if (error := self._failure()) is not None:
            return (Fault("failed", f"the flow ended: {error.what}"),)
        return self._own_faults() + self._seen_faults(now)

    def _seen_faults(self, now: float) -> tuple[Fault, ...]:
        figures, young = self.figures, now - self._began < _START_SECONDS
        if figures is None:
            return () if young else (Fault("status_stale", "the clusters could not be queried yet"),)
        age = now - figures.looked_at
        stale = age > _STALE_SECONDS + self._seconds
        late = (Fault("status_stale", f"the newest figures are {age:.0f} s old"),) if stale else ()
        # A flow's lease, first heartbeat and first epoch follow within seconds of each other.
        if young and self._job.progress is None:
            return late
        # What the last look saw stays a fault: a dead cluster makes looks slow.
        return late + tuple(f for f in figures.status.faults if not young or f.code not in _STARTING)

    def _run(self) -> None:
        collector, flow = self._collector(), self._job.flow
        try:
            while not self._ended.is_set():
                if flow is not self._job.flow:  # the configuration changed
                    collector.close()
                    collector, flow = self._collector(), self._job.flow
                began, worked = monotonic(), busy()
                status = collector.look()
                self._take(status, began)
                self._remember(collector)
                self._pause(busy() - worked, collector)
        finally:
            collector.close()

    def _pause(self, took: float, collector: PairedCollector) -> None:
        """Wait for the next look; `took` are the seconds of a processor that the last one cost."""
        copies, share = self._job.progress is not None, self._share
        if copies:
            share = share_of_looks(share, due=collector.is_note_due, whole=collector.is_note_whole)
        until = monotonic() + max(self._seconds, min(share * took, _LONGEST_SECONDS))
        while (left := until - monotonic()) > 0 and not self._ended.wait(min(left, _GLANCE_SECONDS)):
            if self._job.progress is not None and not copies:
                return

    def _collector(self) -> PairedCollector:
        flow = self._job.flow
        patience = 3 * flow.refresh_topics_interval_seconds + _STALE_SECONDS
        collector = PairedCollector(
            self._settings, flow, patience_seconds=patience, scan_up_to=0, groups=self._groups
        )
        collector.beats.follow()
        if self._groups:
            collector.groups.follow()
        return collector

    def _take(self, status: FlowStatus, now: float) -> None:
        progress = self._job.progress
        totals = progress.totals if progress is not None else None
        if self.figures is None:
            self.figures = FlowFigures(status, now)
        self.figures.renew(status, now, totals)
        self._report_hanging(status)
        self._pair.see(status)
        beat, loss = status.heartbeat, status.loss_now
        observe.identify(status.flow, term=status.term)
        lost = (None, None) if loss is None else (loss.records, loss.seconds)
        self.history.append((status.at_ms, *lost, beat.delay_seconds if beat else None))
        for p in status.partitions:
            if p.frontier is not None:
                observe.frontier((status.source, status.target), p.topic, p.partition, p.frontier)

    def _report_hanging(self, status: FlowStatus) -> None:
        """Emit an event for each hanging transaction when it becomes a fault, and when it has ended."""
        if not status.target_answers or not status.source_answers:
            return
        late = hanging(status.open_transactions, self._job.flow.open_transaction_seconds)
        current = {(t.cluster, t.topic, t.partition, t.producer_id, t.start_offset): t for t in late}
        for key in current.keys() - self._hanging:
            t = current[key]
            observe.event(
                HANGING, level="warning", flow=self.name, cluster=t.cluster, topic=t.topic,
                partition=t.partition, producer_id=t.producer_id, transactional_id=t.transactional_id,
                open_seconds=t.age_seconds, held_back=t.held_back, end_it=t.command,
            )  # fmt: skip
        for cluster, topic, partition, producer, _ in self._hanging - current.keys():
            observe.event(
                "transaction_ended", flow=self.name, cluster=cluster, topic=topic, partition=partition,
                producer_id=producer,
            )  # fmt: skip
        self._hanging = set(current)

    def _remember(self, collector: PairedCollector) -> None:
        """Record the source's ends on the target, if this holds the lease; and open targets on the source."""
        now = monotonic()
        early = now - self._remembered < _REMEMBER_SECONDS and not collector.is_note_due
        if early:
            return
        self._remembered = now
        collector.mark_opened()
        try:
            if self._job.progress is not None:
                collector.remember_source()
        except DrkitError as error:
            observe.event("source_ends_not_noted", level="warning", flow=self.name, reason=error.what)


class Board:
    """All flows of a process.

    :param clock: a steady clock
    :param labels: added to every metric
    :param drills: the samples of drills
    """

    def __init__(
        self, clock: Seconds = monotonic, labels: Mapping[str, str] = _NOTHING, drills: DrillSamples = tuple
    ) -> None:
        self.watches: Sequence[FlowWatch] = ()
        self._clock = clock
        self._registry = CollectorRegistry()
        flows = FlowCollector(
            lambda: [w.figures for w in self.watches if w.figures is not None], clock, self.faults, drills
        )
        self._registry.register(Labelled((observe.REGISTRY, flows), labels))

    def metrics(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def faults(self, now: float) -> dict[FlowAliases, tuple[Fault, ...]]:
        """Current faults of each flow: the same for the health check, the page and the metrics.

        :param now: by the board's clock
        """
        return {w.aliases: w.faults(now) for w in self.watches}

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Return whether every flow is healthy, and each one's faults."""
        now = self._clock()
        ages = {w.aliases: w.age(now) for w in self.watches}
        flows = {f.name: {**_health(x), "age_seconds": ages.get(f)} for f, x in self.faults(now).items()}
        return all(flow["health"] == "ok" for flow in flows.values()), {"flows": flows}

    def status(self, find: Mapping[str, str] = _NOTHING) -> dict[str, Any]:
        """The data of the page: sums by topic, groups, and each flow's figures of the last hour.

        :param find: by flow, a part of the names of the groups to show
        """
        now = self._clock()
        faults = self.faults(now)
        return {"flows": [_page_data(w, faults[w.aliases], now, find.get(w.name, "")) for w in self.watches]}

    def group(self, flow: str, group: str) -> dict[str, Any] | None:
        """Return a group of a flow with all of its partitions, or None if it is unknown."""
        for figures in (w.figures for w in self.watches if w.name == flow):
            seen = figures.status.groups if figures is not None else None
            for found in seen.groups if seen is not None else ():
                if found.group == group:
                    return found.as_dict()
        return None


def _health(faults: Sequence[Fault]) -> dict[str, Any]:
    return {"health": "fault" if faults else "ok", "faults": [f._asdict() for f in faults]}


def _page_data(watch: FlowWatch, faults: Sequence[Fault], now: float, find: str) -> dict[str, Any]:
    figures = watch.figures
    shown: dict[str, Any] = {
        "flow": watch.name,
        **_health(faults),
        "history": list(watch.history),
        "rpo_seconds": watch.rpo_seconds,
    }
    if figures is None:
        return shown
    status = figures.at(now)
    groups = status.groups
    status_json = replace(status, groups=None).as_dict(details=False)
    status_json.pop("partitions")
    topics = sorted(status_json.pop("topics"), key=lambda t: -(t["records"] or 0))
    matching = [g for g in worst_first(groups.groups) if find.lower() in g.group.lower()] if groups else []
    return status_json | shown | {
        "topics": topics[:_SHOWN_TOPICS], "topics_total": len(topics),
        "checkpoints": groups.as_dict() if groups else None,
        "groups": [g.as_dict(details=False) for g in matching[:_SHOWN_GROUPS]] if groups else None,
        "groups_found": len(matching), "groups_total": len(groups.groups) if groups else 0,
        "age_seconds": watch.age(now),
    }  # fmt: skip
