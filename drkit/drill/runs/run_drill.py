"""Run a drill that only reads: collect its evidence in time, judge it, and keep its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
import threading
from typing import Final, NamedTuple

from drkit.clock import Millis, Seconds, monotonic, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.counted import counted
from drkit.drill.evidence import READINESS, TRANSLATION, DrillEvidence, VerdictLimits
from drkit.drill.judge import ABORTED, REFUSED, DrillVerdict
from drkit.drill.plan import DrillPlan
from drkit.drill.positions import WAIT_SECONDS, collect_positions
from drkit.drill.readiness import collect_readiness
from drkit.drill.report.model import (
    DrillReport,
    PlanReport,
    ScopeReport,
    StepReport,
    TimelineEntry,
    build_report,
)
from drkit.drill.runs.history import DrillHistory
from drkit.errors import DrkitError, Refused
from drkit.flow_state.copied_topics import known_of, promoted_of
from drkit.flow_state.topic import StateTopic
from drkit.time_limit import begun

RUNNABLE: Final = (READINESS, TRANSLATION)
"""Kinds that this version runs."""
_POLL_SECONDS: Final = 0.1

TellStep = Callable[[StepReport], None]


class CollectedEvidence(NamedTuple):
    """The evidence of a drill, and how much of the flow it covers."""

    evidence: DrillEvidence = DrillEvidence()
    topics: int = 0
    partitions: int = 0
    groups: int = 0
    outcome: str = ""


@dataclass(frozen=True, kw_only=True)
class DrillOptions:
    """The surroundings of a drill."""

    due: datetime | None = None
    """The due time of its schedule; None: a person started it."""
    tell: TellStep = lambda _: None
    """Called at the end of each step."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Ends the drill early when it is set."""
    clock: Seconds = monotonic
    wall: Millis = wall_ms


def refuse_kind(kind: str, where: str) -> None:
    """Refuse a kind of drills that this version does not run.

    :raises Refused: it does not
    """
    if kind not in RUNNABLE:
        raise Refused(
            f"this version does not run drills of kind {kind} yet",
            where=where,
            evidence=f"kinds that it runs: {', '.join(RUNNABLE)}",
            hint="rehearse it as a dry run: drkit drill run --kind readiness",
        )


def run_drill(
    settings: Settings, plan: DrillPlan, history: DrillHistory, options: DrillOptions
) -> DrillReport:
    """Run a drill and return its report, which is in its history by then. The caller holds the lock.

    An error of a cluster ends the drill as ``aborted``, a refusal as ``refused``. Both leave a report.

    :raises Refused: this version does not run drills of its kind
    """
    refuse_kind(plan.kind, plan.name)
    flow, began_ms, began = settings.flow(plan.flow), options.wall(), options.clock()
    previous = history.last_hash(plan.name)
    entry = history.record_begin(plan, began_ms, options.due)

    def finish(collected: CollectedEvidence, ended: DrillVerdict | None = None) -> DrillReport:
        seconds = options.clock() - began
        outcome = collected.outcome if ended is None else ended.word
        step = StepReport(name="collect", seconds=round(seconds, 3), outcome=outcome)
        options.tell(step)
        times = ((0.0, "the drill begins"), (seconds, "the evidence is collected"))
        report = build_report(
            plan.kind,
            _planned(plan),
            collected.evidence,
            ended,
            id=plan.id,
            scope=_scope(flow, collected),
            timeline=tuple(TimelineEntry(at_ms=began_ms + round(s * 1000), what=text) for s, text in times),
            steps=(step,),
            previous=previous,
        )
        judged = options.clock() - began
        options.tell(StepReport(name="judge", seconds=judged - seconds, outcome=report.verdict))
        history.record_end(entry, report, judged)
        return report

    try:
        collected = _collect_in_time(settings, flow, plan, options)
    except DrkitError as error:
        word = REFUSED if isinstance(error, Refused) else ABORTED
        return finish(CollectedEvidence(), DrillVerdict(word, (_in_words(error),)))
    except BaseException as error:
        finish(CollectedEvidence(), DrillVerdict(ABORTED, (f"interrupted: {type(error).__name__}",)))
        raise
    return finish(collected)


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
    return PlanReport(name=plan.name, objectives=objectives, limits=limits)


def _collect_in_time(
    settings: Settings, flow: FlowSettings, plan: DrillPlan, options: DrillOptions
) -> CollectedEvidence:
    """Return the evidence of a drill.

    :raises DrkitError: it cannot be collected, takes too long, or was to stop
    """
    work = begun(lambda: _COLLECTORS[plan.kind](settings, flow, plan))
    deadline = options.clock() + plan.limits.seconds
    while not work.done():
        if options.stop.wait(_POLL_SECONDS):
            raise DrkitError("the process was asked to end", where=plan.name)
        if options.clock() >= deadline:
            raise DrkitError(
                "the drill takes longer than its limit",
                where=plan.name,
                evidence=f"limits.seconds = {plan.limits.seconds:g}",
            )
    return work.result()


def _collect_translation(settings: Settings, flow: FlowSettings, plan: DrillPlan) -> CollectedEvidence:
    found = collect_positions(
        settings,
        flow,
        bytes_per_second=plan.limits.bytes_per_second,
        wait_seconds=min(WAIT_SECONDS, plan.limits.seconds),
    )
    partitions = {(row.topic, row.partition) for row in found.evidence if row.topic}
    return CollectedEvidence(
        DrillEvidence(found.evidence),
        topics=len({topic for topic, _ in partitions}),
        partitions=len(partitions),
        groups=found.groups,
        outcome=f"{counted(len(found.evidence), 'position')} of {counted(found.groups, 'group')}",
    )


def _collect_readiness(settings: Settings, flow: FlowSettings, _plan: DrillPlan) -> CollectedEvidence:
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


_COLLECTORS: Final = {READINESS: _collect_readiness, TRANSLATION: _collect_translation}


def _in_words(error: DrkitError) -> str:
    return ": ".join(part for part in (error.what, error.where, error.evidence) if part)
