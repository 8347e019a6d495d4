"""Run a drill: collect its evidence, judge it, and keep its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
import threading
from typing import Final, NamedTuple

from drkit.clock import Millis, Seconds, monotonic, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.counted import counted
from drkit.drill.bubble import run_bubble
from drkit.drill.entry import SOURCE, DrillEntry
from drkit.drill.evidence import BUBBLE, READINESS, SWITCHOVER, TRANSLATION, DrillEvidence, VerdictLimits
from drkit.drill.history import DrillHistory
from drkit.drill.inventory import drift
from drkit.drill.judge import ABORTED, REFUSED, DrillVerdict
from drkit.drill.plan import DrillPlan
from drkit.drill.positions import WAIT_SECONDS, collect_positions
from drkit.drill.readiness import collect_readiness
from drkit.drill.report import (
    SILENT,
    DrillProgress,
    DrillReport,
    PlanReport,
    ScopeReport,
    StepReport,
    TimelineEntry,
    build_report,
)
from drkit.drill.switchover import SwitchoverRun
from drkit.errors import DrkitError, Refused
from drkit.flow_state.copied_topics import known_of, promoted_of
from drkit.flow_state.processes import this_process
from drkit.flow_state.topic import StateTopic
from drkit.time_limit import begun

_POLL_SECONDS: Final = 0.1


class CollectedEvidence(NamedTuple):
    """The evidence of a drill, and how much of the flow it covers."""

    evidence: DrillEvidence = DrillEvidence()
    topics: int = 0
    partitions: int = 0
    groups: int = 0
    outcome: str = ""
    steps: tuple[StepReport, ...] = ()
    """Empty: it had one step."""
    ended: DrillVerdict | None = None
    """Its verdict if it did not run to its end; None: the evidence is judged."""


@dataclass(frozen=True, kw_only=True)
class DrillOptions:
    """The surroundings of a drill."""

    due: datetime | None = None
    """The due time of its schedule; None: a person started it."""
    progress: DrillProgress = SILENT
    stop: threading.Event = field(default_factory=threading.Event)
    """Ends the drill early when it is set."""
    clock: Seconds = monotonic
    wall: Millis = wall_ms


class DrillRun(NamedTuple):
    """What a collector of evidence works with."""

    settings: Settings
    flow: FlowSettings
    plan: DrillPlan
    history: DrillHistory
    entry: DrillEntry
    options: DrillOptions


def run_drill(
    settings: Settings, plan: DrillPlan, history: DrillHistory, options: DrillOptions
) -> DrillReport:
    """Run a drill and return its report, which is in its history by then. The caller holds the lock.

    An error of a cluster ends the drill as ``aborted``, a refusal as ``refused``. Both leave a report.
    """
    flow, began_ms, began = settings.flow(plan.flow), options.wall(), options.clock()
    previous = history.last_hash(plan.name)
    entry = DrillEntry.of(plan, began_ms, options.due, this_process())
    history.begin(entry)

    def finish(collected: CollectedEvidence) -> DrillReport:
        seconds, ended = options.clock() - began, collected.ended
        steps = collected.steps
        if not steps:
            outcome = collected.outcome if ended is None else ended.word
            steps = (StepReport(name="collect", seconds=round(seconds, 3), outcome=outcome),)
            options.progress.ended(steps[0])
        times = ((0.0, "the drill begins"), (seconds, "the evidence is collected"))
        report = build_report(
            plan.kind,
            _planned(plan),
            collected.evidence,
            ended,
            id=plan.id,
            scope=_scope(flow, collected),
            timeline=tuple(TimelineEntry(at_ms=began_ms + round(s * 1000), what=text) for s, text in times),
            steps=steps,
            drift=_drift(collected.evidence, history.last_pass(plan.name)),
            previous=previous,
        )
        judged = options.clock() - began
        options.progress.ended(StepReport(name="judge", seconds=judged - seconds, outcome=report.verdict))
        history.end(report, judged)
        return report

    run = DrillRun(settings, flow, plan, history, entry, options)
    try:
        collected = _COLLECTORS[plan.kind](run)
    except DrkitError as error:
        word = REFUSED if isinstance(error, Refused) else ABORTED
        return finish(CollectedEvidence(ended=DrillVerdict(word, (error.in_full,))))
    except BaseException as error:
        reason = f"interrupted: {type(error).__name__}"
        finish(CollectedEvidence(ended=DrillVerdict(ABORTED, (reason,))))
        raise
    return finish(collected)


def _drift(evidence: DrillEvidence, last: DrillReport | None) -> tuple[str, ...]:
    """Return what changed since the last drill that passed; nothing where a scope is unknown."""
    now = evidence.bubble and evidence.bubble.scope
    before = last and last.evidence.bubble and last.evidence.bubble.scope
    return tuple(drift(before, now)) if before and now else ()


def _scope(flow: FlowSettings, collected: CollectedEvidence) -> ScopeReport:
    return ScopeReport(
        flow=flow.name,
        source=flow.source,
        target=flow.target,
        topics=collected.topics,
        partitions=collected.partitions,
        groups=collected.groups,
    )


def _planned(plan: DrillPlan) -> PlanReport:
    objectives = VerdictLimits(
        rto_seconds=plan.objectives.rto_seconds, rpo_seconds=plan.objectives.rpo_seconds
    )
    limits = {name: float(value) for name, value in plan.limits.model_dump().items()}
    return PlanReport(name=plan.name, cut=plan.cut, objectives=objectives, limits=limits)


def _in_time(collect: Callable[[DrillRun], CollectedEvidence]) -> Callable[[DrillRun], CollectedEvidence]:
    """Return a collector that ends with an error when it takes too long, or is to stop."""
    return lambda run: _collect_in_time(run, collect)


def _collect_in_time(run: DrillRun, collect: Callable[[DrillRun], CollectedEvidence]) -> CollectedEvidence:
    plan, options = run.plan, run.options
    work = begun(lambda: collect(run))
    deadline = options.clock() + plan.limits.seconds
    while not work.done():
        if options.stop.wait(_POLL_SECONDS):
            raise DrkitError("process_stopped", where=plan.name)
        if options.clock() >= deadline:
            raise DrkitError(
                "drill_time_limit", where=plan.name, evidence=f"limits.seconds = {plan.limits.seconds:g}"
            )
    return work.result()


def _collect_translation(run: DrillRun) -> CollectedEvidence:
    limits = run.plan.limits
    found = collect_positions(
        run.settings,
        run.flow,
        bytes_per_second=limits.bytes_per_second,
        wait_seconds=min(WAIT_SECONDS, limits.seconds),
    )
    partitions = {(row.topic, row.partition) for row in found.evidence if row.topic}
    return CollectedEvidence(
        DrillEvidence(found.evidence),
        topics=len({topic for topic, _ in partitions}),
        partitions=len(partitions),
        groups=found.groups,
        outcome=f"{counted(len(found.evidence), 'position')} of {counted(found.groups, 'group')}",
    )


def _collect_readiness(run: DrillRun) -> CollectedEvidence:
    settings, flow = run.settings, run.flow
    facts = collect_readiness(settings, flow)
    # Names of topics are read from the target's state alone; a target that is silent is in the facts.
    topics = 0
    try:
        with StateTopic(settings.sides(flow)[1], flow.source) as state:
            state.load()
            topics = len(known_of(state.records).without(promoted_of(state.records)).topics)
    except DrkitError as error:
        facts = replace(facts, unknown=(*facts.unknown, f"the copied topics: {error.in_short}"))
    return CollectedEvidence(
        DrillEvidence(readiness=facts),
        topics=topics,
        groups=facts.groups,
        outcome=f"{counted(topics, 'topic')} and {counted(facts.groups, 'group')}",
    )


def _collect_bubble(run: DrillRun) -> CollectedEvidence:
    given, options = (run.settings, run.flow, run.plan, run.history, run.entry), run.options
    result = run_bubble(*given, progress=options.progress, ended=options.stop)
    return CollectedEvidence(
        DrillEvidence(bubble=result.evidence),
        topics=sum(run.plan.id in item.name for item in result.entry.on(SOURCE, "topic")),
        groups=len(result.entry.on(SOURCE, "group")),
        steps=result.steps,
        ended=result.ended,
    )


def _collect_switchover(run: DrillRun) -> CollectedEvidence:
    result = SwitchoverRun(run.settings, run.plan, run.options.progress, run.options.stop).run()
    return CollectedEvidence(
        DrillEvidence(switchover=result.evidence),
        topics=len(result.scope.topics),
        groups=len(result.scope.groups),
        steps=result.steps,
    )


_COLLECTORS: Final[Mapping[str, Callable[[DrillRun], CollectedEvidence]]] = {
    READINESS: _in_time(_collect_readiness),
    TRANSLATION: _in_time(_collect_translation),
    BUBBLE: _collect_bubble,
    SWITCHOVER: _collect_switchover,
}
