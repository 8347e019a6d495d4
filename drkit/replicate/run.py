"""`drkit replicate`: some flows in one process, each supervised in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
import threading
import traceback
from typing import Any, Final, NamedTuple
import uuid

from py4j.protocol import Py4JError

from drkit import observe
from drkit.checkpoints.summary import wants_checkpoints
from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError, Failed
from drkit.flow_state.lease.run_lease import LeaseTaken
from drkit.masking import scrubbed
from drkit.mm2_topics.heartbeats import HeartbeatEmitter, prepare_heartbeats
from drkit.monitoring.board import LOOK_SECONDS, QUIET_SECONDS, Board, FlowWatch
from drkit.monitoring.page.server import Listen, answering
from drkit.replicate.job import FlowJob
from drkit.replicate.once import groups_left
from drkit.replicate.preflight import refuse_missing, refuse_unready, tell_missing
from drkit.replicate.reload import ConfigFile, Reload
from drkit.replicate.supervisor import supervise
from drkit.spark.conf import NO_CONF, secrets_of
from drkit.spark.session import SharedSpark, plan_spark, spark_session
from drkit.status.held_report import HeldPartition, held_of
from drkit.topic_sync.preview import check

_WATCH_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 3.0


class Glance(NamedTuple):
    """How a flow goes at the moment."""

    flow: str
    records_per_second: float
    lag: int | None
    """In records; None: not known."""
    records: int
    """Copied since the start."""
    held_back: tuple[HeldPartition, ...] = ()
    """What open transactions on the source hold back; it is in no lag."""


Tell = Callable[[Glance], None]


class RunOptions(NamedTuple):
    """What the user asked for."""

    once: bool = False
    standby: bool = False
    """Wait for the lease of each flow that another run holds."""
    master: str | None = None
    conf: Mapping[str, str] = NO_CONF
    progress_seconds: float = 10.0
    config: ConfigFile | None = None
    """The file to follow for changes; None follows none."""
    listen: Listen | None = None
    """Where to serve metrics, health and the page; None: nowhere."""


class RunResult(NamedTuple):
    """The last word of a run."""

    flows: list[dict[str, Any]]
    exit_code: int


def replicate(
    settings: Settings,
    flows: Sequence[FlowSettings],
    options: RunOptions,
    stop: threading.Event,
    tell: Tell = lambda _glance: None,
) -> RunResult:
    """Run flows until `stop` is set, all have ended, or with `once` everything is copied.

    :raises DrkitError: what prevents the start
    """
    run_id = uuid.uuid4().hex[:12]
    board = Board(labels=settings.metrics.labels)
    runs: list[_FlowRun] = []

    def begin(workshop: SharedSpark) -> None:
        for flow in flows:
            clusters = settings.cluster(flow.source), settings.cluster(flow.target)
            job = FlowJob(clusters, flow, workshop, run_id, once=options.once, standby=options.standby)
            runs.append(_FlowRun(job, stop, options))
        for run in runs:
            run.thread.start()

    with ExitStack() as stack:
        try:
            _start(settings, flows, options, stop, stack.enter_context, board, run_id=run_id, begin=begin)
        except (DrkitError, Py4JError, OSError):
            asked_to = stop.is_set()
            stop.set()
            _join(runs)
            if not asked_to:
                raise
        if not runs:
            return RunResult([_stopped_before(flow, once=options.once) for flow in flows], 0)
        # What `once` copies was settled at the start.
        followed = None if options.once else options.config
        reload = Reload(followed, settings, [run.job for run in runs]) if followed is not None else None
        if not options.once:
            board.watches = _watches(settings, runs, options)
        for watch in board.watches:
            watch.start()
        _watch(runs, options, stop, tell, reload)
        for watch in board.watches:
            watch.stop()
        return RunResult([r.result() for r in runs], max(r.exit_code for r in runs))


def _watches(settings: Settings, runs: Sequence[_FlowRun], options: RunOptions) -> list[FlowWatch]:
    # Where nobody can ask for them, only what the source has is noted on the target.
    seconds, seen = (LOOK_SECONDS, True) if options.listen else (QUIET_SECONDS, False)
    for run in runs:
        spark = run.job.workshop.faults
        run.watch = FlowWatch(settings, run.job, run.failure, seconds, groups=seen, faults=spark)
    return [run.watch for run in runs if run.watch is not None]


def _start(
    settings: Settings,
    flows: Sequence[FlowSettings],
    options: RunOptions,
    stop: threading.Event,
    enter: Callable[[AbstractContextManager[Any]], Any],
    board: Board,
    run_id: str,
    begin: Callable[[SharedSpark], None],
) -> None:
    """Check what every run needs, let the flows begin and start Spark; nothing when `stop` is set before.

    :param enter: takes what is to be closed at the end of the run
    :param begin: the flows look at their clusters while Spark starts
    :raises DrkitError: what prevents the start
    """
    # Copy tasks hold their slots; checkpoints of a flow need one more.
    tasks = sum(f.tasks + (not options.once and wants_checkpoints(f)) for f in flows)
    spark = plan_spark(options.master, tasks, options.conf, secrets_of(settings, flows))
    clusters_now = check(settings, flows)
    refuse_missing(settings, clusters_now, flows)
    tell_missing(clusters_now, flows, once=options.once)
    for flow in flows:
        refuse_unready(clusters_now[flow.target], flow)
    if stop.is_set():
        return
    observe.identify(run=run_id)
    enter(answering(options.listen, board))
    enter(spark_session("drkit replicate", spark, stop=stop, meanwhile=begin))


def _stopped_before(flow: FlowSettings, *, once: bool) -> dict[str, Any]:
    """The line of the answer of a flow that was stopped before it began."""
    line = {"flow": flow.name, "ended": "stopped", "records": 0, "bytes": 0, "epochs": 0, "seconds": 0.0}
    line |= {"left_out": {}, "stopped_partitions": {}}
    return line | ({"groups": {}, "held_back": ()} if once else {}) | {"error": None}


def _watch(
    runs: Sequence[_FlowRun], options: RunOptions, stop: threading.Event, tell: Tell, reload: Reload | None
) -> None:
    """Return when all flows have ended, or soon after `stop`, even when a cluster hangs."""

    def glance() -> None:
        while not stop.wait(options.progress_seconds):
            for run in runs:
                run.glance(tell)

    threading.Thread(target=glance, name="progress", daemon=True).start()
    while not stop.is_set() and any(r.thread.is_alive() for r in runs):
        stop.wait(_WATCH_SECONDS)
        if reload is not None:
            reload.look()
    _join(runs)


def _join(runs: Sequence[_FlowRun]) -> None:
    deadline = monotonic() + _STOP_SECONDS
    for run in runs:
        run.thread.join(max(0.0, deadline - monotonic()))
        if run.thread.is_alive():
            # Copying is safe to cut anywhere; the lease of a process that is gone is free at once.
            observe.event("stopped_hard", level="warning", flow=run.name, reason="a cluster does not answer")


class _FlowRun:
    """A flow, its thread, and how it ended."""

    def __init__(self, job: FlowJob, stop: threading.Event, options: RunOptions) -> None:
        self.job = job
        self._stop = stop
        self._once = options.once
        self._error: DrkitError | None = None
        self._began = monotonic()
        self.watch: FlowWatch | None = None
        """Looks at the flow while it runs; None with `once`."""
        self.name = job.flow.name
        self.thread = threading.Thread(target=self._run, name=f"flow {self.name}", daemon=True)

    def failure(self) -> DrkitError | None:
        """What ended the flow for good."""
        return self._error

    def _run(self) -> None:
        flow = self.job.flow
        # Only who holds the lease says that it lives; a copy with an end needs no sign of life.
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
            except LeaseTaken as error:
                if not self.job.standby or self._stop.is_set():
                    raise
                observe.error(error, flow=self.name)

    def _ended_by(self, error: Exception) -> None:
        """A fault that nobody foresaw: nothing may look as if this flow still ran, or were complete."""
        if self._stop.is_set() and isinstance(error, Py4JError | ConnectionError):
            return  # who ends all processes of a group ends Spark's, too; copying is safe to cut anywhere
        last = traceback.extract_tb(error.__traceback__)[-1]
        self._error = Failed(
            f"unexpected {type(error).__name__}: {scrubbed(str(error)).partition(chr(10))[0]}",
            where=self.name,
            evidence=f"{last.filename}, line {last.lineno}, in {last.name}",
            hint="start drkit replicate again: it goes on where it ended; and please report it",
        )
        observe.error(self._error, flow=self.name, gives_up=True)

    def glance(self, tell: Tell) -> None:
        """Look at the clusters and tell how it goes; one that does not answer is told by others."""
        if (progress := self.job.progress) is None or not self.thread.is_alive():
            return
        try:
            seen = progress.sample(self.job.leases())
        except DrkitError as error:
            observe.event("no_progress_figures", level="debug", flow=self.name, reason=error.what)
            return
        lag = self.watch.lag if seen.lag is None and self.watch else seen.lag
        tell(Glance(self.name, seen.records_per_second, lag, seen.records, self._held()))

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

    def result(self) -> dict[str, Any]:
        """The flow's line of the answer."""
        totals = self.job.progress.totals if self.job.progress is not None else None
        return {
            "flow": self.name,
            "ended": "failed" if self._error else "stopped" if self._stop.is_set() else "complete",
            "records": totals.records if totals else 0,
            "bytes": totals.bytes if totals else 0,
            "epochs": totals.epochs if totals else 0,
            "seconds": round(monotonic() - self._began, 1),
            "left_out": dict(self.job.found.left_out),
            "stopped_partitions": dict(totals.stopped) if totals else {},
            **({"groups": self.job.groups, "held_back": self._held()} if self._once else {}),
            "error": self._error.as_dict() if self._error else None,
        }
