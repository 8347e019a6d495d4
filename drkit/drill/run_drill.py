"""Run a drill: collect its evidence, judge it, and keep its report.

What is collected for `readiness` and `translation` is asked for only: a dry run of the failover, the state
of the pair, positions and records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
import os
from typing import Final

from drkit.config import FlowSettings, Settings
from drkit.counted import counted
from drkit.drill.bubble import Bubble
from drkit.drill.entry import DrillEntry
from drkit.drill.evidence import (
    BUBBLE,
    READINESS,
    SWITCHOVER,
    TRANSLATION,
    DrillEvidence,
    ReadinessFacts,
    SeenRefusal,
    VerdictLimits,
)
from drkit.drill.history import DrillHistory
from drkit.drill.inventory import drift
from drkit.drill.judge import ABORTED, REFUSED, DrillVerdict
from drkit.drill.plan import DrillPlan
from drkit.drill.position_rows import PackedPositions
from drkit.drill.positions import WAIT_SECONDS, collect_positions
from drkit.drill.report import DrillReport, PlanReport, ScopeReport, StepReport, TimelineEntry, build_report
from drkit.drill.steps import CollectedEvidence, DrillOptions, DrillRun
from drkit.drill.switchover import Switchover
from drkit.errors import DrkitError, Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.service import FailoverService
from drkit.flow_state.processes import this_process
from drkit.status.groups import group_faults
from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairStatus
from drkit.status.paired import PairedCollector
from drkit.time_limit import begun

_POLL_SECONDS: Final = 0.1
_NICENESS: Final = 5
"""Of a drill. More would starve it on a busy machine: a healthy pair would fail."""


def run_drill(
    settings: Settings, plan: DrillPlan, history: DrillHistory, options: DrillOptions
) -> DrillReport:
    """Run a drill and return its report, which is in its history by then. The caller holds the lock.

    An error of a cluster ends the drill as ``aborted``, a refusal as ``refused``. Both leave a report.
    """
    flow, began_ms, began = settings.flow(plan.flow), options.wall(), options.clock()
    objectives = VerdictLimits(**dict(plan.objectives))
    entry = DrillEntry.of(plan, began_ms, options.due, this_process())
    before = [
        e for e in history.begin(entry) if (e.name, e.kind, e.flow) == (plan.name, plan.kind, plan.flow)
    ]

    def finish(collected: CollectedEvidence) -> DrillReport:
        seconds, steps = options.clock() - began, collected.steps
        if not steps:
            outcome = collected.outcome if collected.ended is None else collected.ended.word
            steps = (StepReport(name="collect", seconds=round(seconds, 3), outcome=outcome),)
            options.ended(steps[0])
        covered = {"topics": collected.topics, "partitions": collected.partitions, "groups": collected.groups}
        times = ((0.0, "the drill begins"), (seconds, "the evidence is collected"))
        report = build_report(
            plan.kind,
            PlanReport(name=plan.name, cut=plan.cut, objectives=objectives, limits=dict(plan.limits)),
            collected.evidence,
            collected.ended,
            id=plan.id,
            scope=ScopeReport(flow=flow.name, source=flow.source, target=flow.target, **covered),
            timeline=tuple(TimelineEntry(at_ms=began_ms + round(s * 1000), what=text) for s, text in times),
            steps=steps,
            drift=tuple(_drift(collected.evidence, history, before)),
            previous=next((each.hash for each in reversed(before) if each.hash), ""),
        )
        judged = options.clock() - began
        options.ended(StepReport(name="judge", seconds=judged - seconds, outcome=report.verdict))
        history.end(report, judged)
        return report

    def failed(word: str, reason: str) -> DrillReport:
        return finish(CollectedEvidence(ended=DrillVerdict(word, (reason,))))

    try:
        collected = _COLLECTORS[plan.kind](DrillRun(settings, flow, plan, history, entry, options))
    except DrkitError as error:
        return failed(REFUSED if isinstance(error, Refused) else ABORTED, error.in_full)
    except BaseException as error:
        failed(ABORTED, f"interrupted: {type(error).__name__}")
        raise
    return finish(collected)


def _drift(evidence: DrillEvidence, history: DrillHistory, entries: list[DrillEntry]) -> Iterator[str]:
    """Return what changed since the last drill that passed; nothing where a scope is unknown."""
    now = evidence.bubble and evidence.bubble.scope
    last = history.last_pass(entries) if now else None
    if now and last and last.evidence.bubble and last.evidence.bubble.scope:
        yield from drift(last.evidence.bubble.scope, now)


def _begun_aside(collect: Callable[[], CollectedEvidence]) -> Future[CollectedEvidence]:
    """Collect in a thread that leaves processor time to production on this machine.

    On Linux the niceness is that of the thread, and of the threads and processes that it starts: a switchover
    that the same scheduler runs later has the ordinary one.
    """

    def collect_aside() -> CollectedEvidence:
        os.nice(_NICENESS)
        return collect()

    return begun(collect_aside)


def _in_time(collect: Callable[[DrillRun], CollectedEvidence]) -> Callable[[DrillRun], CollectedEvidence]:
    """Return a collector that ends with an error when it takes too long, or is to stop."""

    def collect_in_time(run: DrillRun) -> CollectedEvidence:
        name, seconds, options = run.plan.name, run.plan.limits.seconds, run.options
        work = _begun_aside(lambda: collect(run))
        deadline = options.clock() + seconds
        while not work.done():
            if options.stop.wait(_POLL_SECONDS):
                raise DrkitError("process_stopped", where=name)
            if options.clock() >= deadline:
                raise DrkitError("drill_time_limit", where=name, evidence=f"limits.seconds = {seconds:g}")
        return work.result()

    return collect_in_time


def _collect_translation(run: DrillRun) -> CollectedEvidence:
    limits = run.plan.limits
    positions = collect_positions(
        run.settings,
        run.flow,
        bytes_per_second=limits.bytes_per_second,
        wait_seconds=min(WAIT_SECONDS, limits.seconds),
    )
    partitions = {(row.topic, row.partition) for row in positions.evidence if row.topic}
    return CollectedEvidence(
        DrillEvidence(PackedPositions.of(positions.evidence)),
        topics=len({topic for topic, _ in partitions}),
        partitions=len(partitions),
        groups=positions.groups,
        outcome=f"{counted(len(positions.evidence), 'position')} of {counted(positions.groups, 'group')}",
    )


def _collect_readiness(run: DrillRun) -> CollectedEvidence:
    facts, topics = collect_readiness(run.settings, run.flow)
    outcome = f"{counted(topics, 'topic')} and {counted(facts.groups, 'group')}"
    return CollectedEvidence(DrillEvidence(readiness=facts), topics, groups=facts.groups, outcome=outcome)


_COLLECTORS: Final[Mapping[str, Callable[[DrillRun], CollectedEvidence]]] = {
    READINESS: _in_time(_collect_readiness),
    TRANSLATION: _in_time(_collect_translation),
    BUBBLE: lambda run: _begun_aside(lambda: Bubble(run).collect()).result(),
    SWITCHOVER: lambda run: Switchover(run).collect(),
}


def collect_readiness(settings: Settings, flow: FlowSettings) -> tuple[ReadinessFacts, int]:
    """Return the facts on which a failover of a whole flow would be decided now, and its number of topics.

    A question that gets no answer is part of the facts, never an error.
    """
    with closing(PairedCollector(settings, flow)) as collector:
        status = collector.look()
    facts, topics = _from_status(status), len(status.topics)
    try:
        with FailoverService(settings, flow) as service:
            rehearsal = service.rehearse((), RunRequest())
    except Refused as error:
        return replace(facts, refusals=(SeenRefusal("", "", error.in_full),)), topics
    except DrkitError as error:
        return replace(facts, unknown=(*facts.unknown, error.in_full)), topics
    refusals = tuple(SeenRefusal(g, f"runbooks/{g}.md", e.in_full) for g, e in rehearsal.refusals)
    risk = rehearsal.survey.risk
    facts = replace(facts, refusals=refusals, loss_seconds=risk.seconds, loss_basis=risk.basis)
    return replace(facts, loss_records=risk.records), topics


def _from_status(status: FlowStatus) -> ReadinessFacts:
    pair = status.pair or PairStatus((status.source, status.target))
    groups = status.groups.groups if status.groups else ()
    texts = dict(group_faults(status.groups) if status.groups else ())
    # All groups where checkpoints are stale, else those that do not become ready by themselves.
    stale = texts.get("checkpoints_stale", "")
    return ReadinessFacts(
        pair.state,
        pair.reason,
        groups=len(groups),
        not_ready=tuple((g.group, stale or g.reason) for g in groups if stale or g.faulty),
        loss_basis="the failover was not rehearsed",
        unknown=(*pair.unknown, *(text for code, text in texts.items() if code == "groups_unknown")),
    )
