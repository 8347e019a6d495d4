"""A flow of `drkit replicate` in a thread of its own, supervised, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
import threading
import traceback
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError

from drkit import observe
from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError, Failed
from drkit.flow_state.lease.run_lease import LeaseTaken
from drkit.flow_state.records import PromotionRecord
from drkit.flow_state.topic import StateTopic
from drkit.masking import scrubbed
from drkit.mm2_topics.heartbeats import HeartbeatEmitter, prepare_heartbeats
from drkit.monitoring.board import FlowWatch
from drkit.replicate.job import FlowJob
from drkit.replicate.once import groups_left
from drkit.replicate.supervisor import free_clients, supervise
from drkit.status.progress import Sample
from drkit.status.sums import HeldPartition, held_of
from drkit.topic_sync.rules import FlowPromoted

_LOOK_SECONDS: Final = 1.0


def waits_for_return(flow: FlowSettings, *, once: bool) -> bool:
    """Return whether a flow waits for a failback after its target was promoted: it has a reverse flow."""
    return bool(flow.opposite_flows) and not once


def wait_for_return(
    flow: FlowSettings, target: ClusterSettings, stop: threading.Event, refusal: DrkitError
) -> None:
    """Return when the flow may copy again, or `stop` is set.

    :param refusal: the refusal to copy
    """
    observe.event("flow_promoted", flow=flow.name, waits=True, reason=refusal.what, evidence=refusal.evidence,
                  hint=f"it copies again after a switchover back: drkit failover --flow"
                  f" '{flow.target}->{flow.source}' --all --planned")  # fmt: skip
    with StateTopic(target.with_client(flow.target_admin), flow.source) as state:
        while not stop.wait(_LOOK_SECONDS):
            try:
                state.load()
                if state.get(PromotionRecord) is None:
                    return
            except DrkitError:
                continue  # the next look may find the cluster


STARTS_SPARK: Final = "starting Spark"
WAITS_FOR_LEASE: Final = "waiting for the lease of the run that copies"
LOOKS_AT_CLUSTERS: Final = "looking at the topics of both clusters"
READS_MAP: Final = "reading the offset map, then the first records"


class Glance(NamedTuple):
    """The current progress of a flow."""

    flow: str
    records_per_second: float
    lag: int | None
    """In records, or None if unknown."""
    records: int
    """Copied since the start."""
    held_back: tuple[HeldPartition, ...] = ()
    """Partitions held back by open transactions on the source; the lag does not include them."""
    phase: str = ""
    """Phase before the copy, or empty while it copies."""


Tell = Callable[[Glance], None]


class FlowThread:
    """A flow, its thread, and how it ended."""

    def __init__(self, job: FlowJob, stop: threading.Event, *, once: bool) -> None:
        self.job = job
        self._stop = stop
        self._once = once
        self._error: DrkitError | None = None
        self._began = monotonic()
        self._seen: Sample | None = None
        self.watch: FlowWatch | None = None
        """Looks at the flow while it runs; None with `once`."""
        self.name = job.flow.name
        self.thread = threading.Thread(target=self._run, name=f"flow {self.name}", daemon=True)

    @property
    def has_begun(self) -> bool:
        """Return whether its tasks may be running."""
        return self.job.cut is not None and self.job.workshop.has_started

    def failure(self) -> DrkitError | None:
        """Return the error that ended the flow permanently."""
        return self._error

    def _run(self) -> None:
        flow = self.job.flow
        # Only the lease holder sends heartbeats; a copy with an end needs none.
        source = self.job.clusters[0].with_client(flow.source_admin)
        job = self.job
        beats = HeartbeatEmitter(source, flow, lambda: job.progress is not None, now=lambda: job.flow)
        if flow.emit_heartbeats and not self._once:
            if not job.standby:  # one that waits writes nothing
                prepare_heartbeats(source, flow)
            beats.start()
        try:
            supervise(self.name, self._attempt, self._stop, once=self._once)
        except DrkitError as error:
            self._error = error
            observe.error(error, flow=self.name, gives_up=True)
        except Exception as error:  # noqa: BLE001  the thread's last line of defence
            self._ended_by(error)
        finally:
            beats.stop()

    def _attempt(self) -> None:
        """One attempt; a standby whose lease another run took waits again."""
        while True:
            try:
                return self.job.run(self._stop)
            except FlowPromoted as error:
                self.job.found = self.job.found.promoted()
                if not waits_for_return(self.job.flow, once=self._once):
                    raise
                self.job.progress = None  # what looks after a flow that copies does nothing now
                wait_for_return(self.job.flow, self.job.clusters[1], self._stop, error)
                if self._stop.is_set():
                    return None
            except LeaseTaken as error:
                if not self.job.standby or self._stop.is_set():
                    raise
                observe.error(error, flow=self.name)
                free_clients(error)

    def _ended_by(self, error: Exception) -> None:
        """Handle an unexpected error: the flow must not appear to be running or complete."""
        if self._stop.is_set() and isinstance(error, Py4JError | ConnectionError):
            return  # a signal to the process group ends Spark's JVM too; copying is safe to cut anywhere
        last = traceback.extract_tb(error.__traceback__)[-1]
        self._error = Failed(
            "unexpected_error",
            where=self.name,
            evidence=f"{last.filename}, line {last.lineno}, in {last.name}",
            hint="start drkit replicate again: it continues where it ended; and please report it",
            kind=type(error).__name__,
            error=scrubbed(str(error)).partition(chr(10))[0],
        )
        observe.error(self._error, flow=self.name, gives_up=True)

    def glance(self, tell: Tell) -> None:
        """Look at the clusters and show the progress; other parts report a cluster that does not answer."""
        if not self.thread.is_alive():
            return
        if (progress := self.job.progress) is None or not self.job.workshop.has_started:
            tell(Glance(self.name, 0.0, None, 0, phase=self._phase()))
            return
        try:
            seen = self._seen = progress.sample(self.job.leases())
        except DrkitError as error:
            observe.event("no_progress_figures", level="debug", flow=self.name, reason=error.what)
            return
        looked = self.watch.lag if self.watch else None  # between reports `seen` counts aborted records, too
        lag = seen.lag if looked is None else looked
        held = self._held()
        # Where open transactions hold everything back, no first record is to be waited for.
        phase = "" if seen.records or progress.totals.epochs or lag == 0 or held else READS_MAP
        tell(Glance(self.name, seen.records_per_second, lag, seen.records, held, phase))

    def _phase(self) -> str:
        if not self.job.workshop.has_started:
            return STARTS_SPARK
        return WAITS_FOR_LEASE if self.job.standby else LOOKS_AT_CLUSTERS

    def _held(self) -> tuple[HeldPartition, ...]:
        """With `once` as seen at the start, else as the last look saw it."""
        if self._once:
            return self.job.bound.held if self.job.bound is not None else ()
        figures = self.watch.figures if self.watch is not None else None
        return held_of(figures.status) if figures is not None else ()

    @property
    def exit_code(self) -> int:
        """0 done, else the error's, or 1 when something was left out of a copy that should be whole."""
        if self._error is not None:
            return self._error.exit_code
        stopped = self.job.progress is not None and self.job.progress.totals.stopped
        incomplete = stopped or self.job.found.left_out or groups_left(self.job.groups)
        return int(self._once and bool(incomplete))

    def _records(self) -> int:
        progress = self.job.progress
        reported = progress.totals.records if progress is not None else 0
        return max(reported, self._seen.records if self._seen is not None else 0)

    def result(self) -> dict[str, Any]:
        """The flow's line of the answer."""
        totals = self.job.progress.totals if self.job.progress is not None else None
        return {
            "flow": self.name,
            "ended": "failed" if self._error else "stopped" if self._stop.is_set() else "complete",
            "records": self._records(),
            "bytes": totals.bytes if totals else 0,
            "epochs": totals.epochs if totals else 0,
            "seconds": round(monotonic() - self._began, 1),
            "left_out": dict(self.job.found.left_out),
            "stopped_partitions": dict(totals.stopped) if totals else {},
            **({"groups": self.job.groups, "held_back": self._held()} if self._once else {}),
            "error": self._error.as_dict() if self._error else None,
        }
