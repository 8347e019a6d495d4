"""What a replicating process knows of its flows at the moment: for metrics, health check and page."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
import threading
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest

from drkit import observe
from drkit.clock import Seconds, monotonic
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.replicate.metrics import FlowCollector, FlowFigures
from drkit.replicate.progress import Progress
from drkit.replicate.status import Fault, FlowStatus
from drkit.replicate.status_look import StatusCollector

LOOK_SECONDS: Final = 5.0
QUIET_SECONDS: Final = 10.0
"""Between two looks where nobody asks for metrics: only for the note of the source's ends."""
_SHARE: Final = 10
"""A look may take a tenth of the time."""
_REMEMBER_SECONDS: Final = 10.0
_HISTORY: Final = 720
_STALE_SECONDS: Final = 30.0
_START_SECONDS: Final = 60.0
_SHOWN_TOPICS: Final = 200


class Job(Protocol):
    """A flow that this process runs."""

    flow: FlowSettings
    progress: Progress | None


class FlowWatch:
    """Looks at one flow again and again, from a thread of its own."""

    def __init__(
        self,
        settings: Settings,
        job: Job,
        failure: Callable[[], DrkitError | None] = lambda: None,
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._settings = settings
        self._job = job
        self._failure = failure
        self._seconds = seconds
        self._began = monotonic()
        self._remembered = float("-inf")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"status {job.flow.name}", daemon=True)
        self.history: deque[tuple[int, int | None, float | None, float | None]] = deque(maxlen=_HISTORY)
        """Time in ms, lag in records, RPO in seconds, delay of heartbeats in seconds."""
        self.figures: FlowFigures | None = None

    @property
    def name(self) -> str:
        """The flow's name."""
        return self._job.flow.name

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; one look may still be on its way."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def faults(self, now: float) -> tuple[Fault, ...]:
        """What is wrong now, old figures included; a flow that begins has time until its first look."""
        if (error := self._failure()) is not None:
            return (Fault("failed", f"the flow ended: {error.what}"),)
        figures, young = self.figures, now - self._began < _START_SECONDS
        if figures is None:
            return () if young else (Fault("status_stale", "nobody could look at the clusters yet"),)
        age = now - figures.looked_at
        if age > max(_STALE_SECONDS, _SHARE * self._seconds):
            return (Fault("status_stale", f"the newest figures are {age:.0f} s old"),)
        # Its lease, its first heartbeat and its first epoch come within seconds of each other.
        starting = young and self._job.progress is None
        return () if starting else figures.status.faults

    def _run(self) -> None:
        collector, flow = self._collector(), self._job.flow
        try:
            while not self._ended.is_set():
                if flow is not self._job.flow:  # the configuration changed
                    collector.close()
                    collector, flow = self._collector(), self._job.flow
                began = monotonic()
                self._take(collector.look(), monotonic())
                self._remember(collector)
                self._ended.wait(max(self._seconds, _SHARE * (monotonic() - began)))
        finally:
            collector.close()

    def _collector(self) -> StatusCollector:
        flow = self._job.flow
        patience = 3 * flow.refresh_topics_interval_seconds + _STALE_SECONDS
        made = StatusCollector(self._settings, flow, patience_seconds=patience, scan_up_to=0)
        made.beats.follow()
        return made

    def _take(self, status: FlowStatus, now: float) -> None:
        progress = self._job.progress
        totals = progress.totals if progress is not None else None
        if self.figures is None:
            self.figures = FlowFigures(status, now)
        self.figures.renew(status, now, totals)
        beat, loss = status.heartbeat, status.loss
        self.history.append((status.at_ms, loss.records, loss.seconds, beat.delay_seconds if beat else None))
        for p in status.partitions:
            if p.frontier is not None:
                observe.frontier((status.source, status.target), p.topic, p.partition, p.frontier)

    def _remember(self, collector: StatusCollector) -> None:
        """Note the source's ends on the target, so that a failover knows them; only who has the lease."""
        now = monotonic()
        if self._job.progress is None or now - self._remembered < _REMEMBER_SECONDS:
            return
        self._remembered = now
        try:
            collector.remember_source()
        except DrkitError as error:
            observe.event("source_ends_not_noted", level="warning", flow=self.name, reason=error.what)


class Board:
    """All flows of a process.

    :param clock: a steady clock
    """

    def __init__(self, clock: Seconds = monotonic) -> None:
        self.watches: Sequence[FlowWatch] = ()
        self._clock = clock
        self._registry = CollectorRegistry()
        self._registry.register(FlowCollector(self._figures, clock))

    def _figures(self) -> list[FlowFigures]:
        return [w.figures for w in self.watches if w.figures is not None]

    def metrics(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(observe.REGISTRY) + generate_latest(self._registry)

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether every flow is healthy, and each one's faults."""
        now = self._clock()
        found = {w.name: w.faults(now) for w in self.watches}
        told = {
            name: {"health": "fault" if faults else "ok", "faults": [f._asdict() for f in faults]}
            for name, faults in found.items()
        }
        return not any(found.values()), {"flows": told}

    def status(self) -> dict[str, Any]:
        """What the page shows: sums by topic, and each flow's figures of the last hour."""
        now = self._clock()
        return {"flows": [_shown(w, now) for w in self.watches]}


def _shown(watch: FlowWatch, now: float) -> dict[str, Any]:
    figures, faults = watch.figures, watch.faults(now)
    told: dict[str, Any] = {
        "flow": watch.name,
        "health": "fault" if faults else "ok",
        "faults": [f._asdict() for f in faults],
        "history": list(watch.history),
    }
    if figures is None:
        return told
    whole = figures.status.as_dict()
    whole.pop("partitions")
    topics = sorted(whole.pop("topics"), key=lambda t: -(t["records"] or 0))
    age = round(now - figures.looked_at, 1)
    return whole | told | {"topics": topics[:_SHOWN_TOPICS], "topics_total": len(topics), "age_seconds": age}
