"""`drkit replicate`: some flows in one process, each supervised in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from enum import Enum
from functools import partial
import threading
from typing import Any, Final, NamedTuple
import uuid

from py4j.protocol import Py4JError

from drkit import observe
from drkit.allocator import share_heap
from drkit.checkpoints.group_ledger import wants_checkpoints
from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError, Refused
from drkit.kafka.admin import Cluster
from drkit.monitoring.board import LOOK_SECONDS, QUIET_SECONDS, Board, FlowWatch
from drkit.monitoring.metrics import DrillSamples
from drkit.monitoring.page.server import Listen, answering
from drkit.replicate.flow_thread import FlowThread, Tell
from drkit.replicate.job import FlowJob
from drkit.replicate.preflight import refuse_missing, refuse_unready, tell_missing
from drkit.replicate.reload import ConfigFile, Reload
from drkit.spark.conf import NO_CONF, secrets_of
from drkit.spark.session import SharedSpark, plan_spark, spark_session
from drkit.topic_sync.preview import check
from drkit.topic_sync.rules import FlowPromoted

_WATCH_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 3.0


class Stop(Enum):
    """The stage of a run at which a signal to stop arrived."""

    DRAINS = "stopping: draining in-flight batches"
    BEFORE_START = "stopped before start"


class RunOptions(NamedTuple):
    """The user's options."""

    once: bool = False
    standby: bool = False
    """Wait for the lease of each flow that another run holds."""
    master: str | None = None
    conf: Mapping[str, str] = NO_CONF
    progress_seconds: float = 10.0
    config: ConfigFile | None = None
    """The file to follow for changes; None follows none."""
    listen: Listen | None = None
    """Address for metrics, health and the page, or None."""
    drills: DrillSamples = tuple
    """Samples of drills for the metrics."""
    tell: Tell = lambda _glance: None
    """Gets how each flow goes, every `progress_seconds`."""
    stopping: Callable[[Stop], None] = lambda _stop: None
    """Gets what a stop has met."""


class RunResult(NamedTuple):
    """The final answer of a run."""

    flows: list[dict[str, Any]]
    exit_code: int


def replicate(
    settings: Settings, flows: Sequence[FlowSettings], options: RunOptions, stop: threading.Event
) -> RunResult:
    """Run flows until `stop` is set, all have ended, or with `once` everything is copied.

    :raises DrkitError: what prevents the start
    """
    run_id = uuid.uuid4().hex[:12]
    board = Board(labels=settings.metrics.labels, drills=options.drills)
    runs: list[FlowThread] = []

    def begin(copying: Sequence[FlowSettings], workshop: SharedSpark) -> None:
        for flow in copying:
            clusters = settings.cluster(flow.source), settings.cluster(flow.target)
            job = FlowJob(
                clusters, flow, workshop, run_id, once=options.once, standby=options.standby,
                both_ways=flow.has_opposite_in(flows), files=settings.fingerprints(flow),
            )  # fmt: skip
            runs.append(FlowThread(job, stop, once=options.once))
        for run in runs:
            run.thread.start()
        threading.Thread(target=_glance, args=(runs, options, stop), name="progress", daemon=True).start()

    with ExitStack() as stack:
        has_started = True
        try:
            _start(settings, flows, options, stop, stack.enter_context, board, run_id=run_id, begin=begin)
        except (DrkitError, Py4JError, OSError):
            has_started = not stop.is_set()
            stop.set()
            _join(runs)
            if has_started:  # no stop was requested
                raise
        if not (runs and has_started):
            options.stopping(Stop.BEFORE_START)
            return _answer(flows, runs, options)
        # What `once` copies was settled at the start.
        followed = None if options.once else options.config
        reload = Reload(followed, settings, [run.job for run in runs]) if followed is not None else None
        if not options.once:
            board.watches = _watches(settings, runs, options)
        for watch in board.watches:
            watch.start()
        _watch(runs, options, stop, reload)
        for watch in board.watches:
            watch.stop()
        return _answer(flows, runs, options)


def _answer(flows: Sequence[FlowSettings], runs: Sequence[FlowThread], options: RunOptions) -> RunResult:
    names, ended = {run.name for run in runs}, "promoted: waits" if runs else "stopped"
    rest = [_not_begun(flow, ended, once=options.once) for flow in flows if flow.name not in names]
    return RunResult([*(r.result() for r in runs), *rest], max((r.exit_code for r in runs), default=0))


def _watches(settings: Settings, runs: Sequence[FlowThread], options: RunOptions) -> list[FlowWatch]:
    # Without an HTTP listener only the source's figures are noted on the target.
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
    begin: Callable[[Sequence[FlowSettings], SharedSpark], None],
) -> None:
    """Check what every run needs, let the flows begin and start Spark; nothing when `stop` is set before.

    :param enter: takes what is to be closed at the end of the run
    :param begin: the flows look at their clusters while Spark starts
    :raises DrkitError: what prevents the start
    """
    share_heap()
    # Copy tasks hold their slots; checkpoints of a flow need one more.
    tasks = sum(f.tasks + (not options.once and wants_checkpoints(f)) for f in flows)
    spark = plan_spark(options.master, tasks, options.conf, secrets_of(settings, flows))
    clusters_now = check(settings, flows)
    refuse_missing(settings, clusters_now, flows)
    tell_missing(clusters_now, flows, once=options.once)
    copying = _ready_flows(clusters_now, flows, options)
    if stop.is_set():
        return
    observe.identify(run=run_id)
    enter(answering(options.listen, board))
    enter(spark_session("drkit replicate", spark, stop=stop, meanwhile=partial(begin, copying)))


def _ready_flows(
    clusters: Mapping[str, Cluster], flows: Sequence[FlowSettings], options: RunOptions
) -> list[FlowSettings]:
    """Return the flows to run: of a pair that is copied once, only the one to the passive side.

    :raises DrkitError: no run can work with a target, or all flows are run by another process
    """
    refusals: list[Refused] = []
    promoted, copying = [], []
    for flow in flows:
        try:
            refusal = refuse_unready(clusters[flow.target], flow, once=options.once)
            refusals += [refusal] if refusal is not None else []
            copying.append(flow)
        except FlowPromoted as refused:
            promoted.append((flow, refused))
    for flow, error in promoted:
        if not (options.once and flow.has_opposite_in(copying)):
            raise error
        observe.event("flow_promoted", flow=flow.name, reason=error.what, evidence=error.evidence)
    if refusals and len(refusals) == len(copying) and not options.standby:
        raise refusals[0]
    return copying


def _not_begun(flow: FlowSettings, ended: str, *, once: bool) -> dict[str, Any]:
    line = {"flow": flow.name, "ended": ended, "records": 0, "bytes": 0, "epochs": 0, "seconds": 0.0}
    line |= {"left_out": {}, "stopped_partitions": {}}
    return line | ({"groups": {}, "held_back": ()} if once else {}) | {"error": None}


def _glance(runs: Sequence[FlowThread], options: RunOptions, stop: threading.Event) -> None:
    while not stop.is_set():
        for run in runs:
            run.glance(options.tell)
        stop.wait(options.progress_seconds)


def _watch(
    runs: Sequence[FlowThread], options: RunOptions, stop: threading.Event, reload: Reload | None
) -> None:
    """Return when all flows have ended, or soon after `stop`, even when a cluster hangs."""
    while not stop.is_set() and any(r.thread.is_alive() for r in runs):
        stop.wait(_WATCH_SECONDS)
        if reload is not None:
            reload.look()
    if stop.is_set():
        options.stopping(Stop.DRAINS if any(r.has_begun for r in runs) else Stop.BEFORE_START)
    _join(runs)


def _join(runs: Sequence[FlowThread]) -> None:
    deadline = monotonic() + _STOP_SECONDS
    for run in runs:
        run.thread.join(max(0.0, deadline - monotonic()))
        if run.thread.is_alive():
            # Copying is safe to cut anywhere; the lease of a process that is gone is free at once.
            reason = f"its tasks did not end within {_STOP_SECONDS:g} s"
            observe.event("stopped_hard", level="warning", flow=run.name, reason=reason)
