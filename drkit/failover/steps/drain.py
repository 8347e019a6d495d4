"""DRAIN: wait until the copy reaches the fenced end, or the deadline; then report what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drkit.counted import counted, first_of, total
from drkit.errors import Refused
from drkit.failover.checks.foreign_writes import refuse_written
from drkit.failover.core.context import Context, StepProgress, asked
from drkit.failover.core.step import LossEvidence, Step, StepEffect, StepResult
from drkit.failover.groups.waits import wait_for_groups
from drkit.failover.loss.count import DELETED, Lost, evidence_of, held_of, is_drained, lost_partitions
from drkit.failover.loss.positions import ScopePositions, bounds_of, scope_positions
from drkit.failover.steps.freeze import end_on_map
from drkit.flow_state.records import RoleRecord
from drkit.journal.machine import StepName
from drkit.kafka.raw import RawCluster
from drkit.offset_map.places import RECREATED
from drkit.status.lag.source import held_text

_PAUSE_SECONDS: Final = 0.2
_TELL_SECONDS: Final = 1.0
_RETURN_SECONDS: Final = 20.0
"""Time in which a replicator resumes after its topics are no longer frozen."""


class DrainStep(Step):
    """DRAIN: waits for the copy, and counts what is missing."""

    name = StepName.DRAIN

    def plan(self, context: Context) -> list[StepEffect]:
        source, alias = context.source(), context.flow.source
        if source is None:
            lost = lost_partitions(context, scope_positions(context, None), None)
            loss = evidence_of(context, lost, None, fenced=False)["statement"]
            reason = f"it does not answer: nothing to wait for; {loss}"
            return [StepEffect("report what is lost", alias, reason)]
        lost = lost_partitions(context, scope_positions(context, source), source)
        seconds = context.settings.failover.drain_seconds
        text = f"wait up to {seconds:g} s for the copy to reach the end of {counted(len(lost), 'partition')}"
        return [StepEffect(text, f"{alias} and {context.flow.target}", f"now: {_left(lost)}")]

    def run(self, context: Context) -> StepResult:
        fenced = bool(context.result(StepName.FENCE).get("proven"))
        deadline = context.clock() + context.settings.failover.drain_seconds
        end_on_map(context)
        loss, bounds = self._wait_for_copy(context, deadline, fenced=fenced)
        if context.request.planned:
            context.state.load()
            refuse_written(context)
        _refuse(context, loss, fenced=fenced)
        evidence: dict[str, Any] = {**loss, **bounds}
        notes = [loss["statement"]]
        if deleted := sorted(
            {f"{p['topic']} ({p['reason']})" for p in loss["partitions"] if p["reason"].startswith(DELETED)}
        ):
            notes.append(f"opened on {context.flow.target} as copied: {first_of(deleted)}")
        if context.request.planned:
            behind = wait_for_groups(context, deadline)
            evidence["groups_behind"] = behind
            notes += [f"{g} still reads on {context.flow.source}: {reason}" for g, reason in behind.items()]
        return StepResult(evidence, tuple(notes))

    def _wait_for_copy(
        self, context: Context, deadline: float, *, fenced: bool
    ) -> tuple[LossEvidence, dict[str, dict[str, int]]]:
        def look(source: RawCluster | None) -> tuple[RawCluster | None, ScopePositions, list[Lost]]:
            positions = scope_positions(context, source)
            return source, positions, lost_partitions(context, positions, source)

        reported, until = float("-inf"), context.clock() + _RETURN_SECONDS
        while True:
            source, positions, lost = asked(context, look)
            now = context.clock()
            if (
                source is None
                or is_drained(lost)
                or now > deadline
                or _is_stuck(context, lost)
                or not _is_copied(context, until)
            ):
                return evidence_of(context, lost, source, fenced=fenced), bounds_of(context, positions)
            if now - reported > _TELL_SECONDS:
                reported = now
                context.tell(StepProgress(self.name, _left(lost), {"seconds_left": round(deadline - now, 1)}))
            context.pause(_PAUSE_SECONDS)


def _is_stuck(context: Context, lost: Sequence[Lost]) -> bool:
    others = [p for p in lost if p.reason != RECREATED]
    return len(others) < len(lost) and context.flow.on_source_recreated == "stop" and is_drained(others)


def _is_copied(context: Context, until: float) -> bool:
    """Return whether waiting helps: these topics are copied, or will be soon.

    :param until: the time by which a replicator fenced by this run is back, by the context's clock
    """
    context.state.load()
    roles = context.state.all(RoleRecord)
    if any(topic in roles for topic in context.scope.topics):
        return False  # frozen
    replicator = context.replicator()
    if replicator is not None and replicator.alive:
        return True
    return bool(context.effects(StepName.FREEZE)) and context.clock() < until


def _left(lost: Sequence[Lost]) -> str:
    records = total(p.records for p in lost)
    waiting = sum(p.open_transaction for p in lost)
    held = held_of(lost)
    text = f", {counted(waiting, 'partition')} with an open transaction" if waiting else ""
    held_back = held_text(held.records, held.acknowledged)
    some = "an unknown number of records" if records is None else counted(records, "record")
    return f"{some} left" + text + (f", {held_back}" if held_back else "")


def _refuse(context: Context, loss: LossEvidence, *, fenced: bool) -> None:
    request, budget = context.request, context.settings.failover.rpo_seconds
    recreated = sorted({p["topic"] for p in loss["partitions"] if p["reason"] == RECREATED})
    if request.planned and recreated:
        raise Refused(
            "recreated_on_old_primary",
            where=f"{context.flow.source}: {first_of(recreated)}",
            evidence=f"they have other ids there than what was copied; {loss['statement']}",
        )
    if request.planned and not (loss["drained"] and fenced):
        raise Refused("switchover_incomplete", where=context.flow.name, evidence=loss["statement"])
    if request.accept_data_loss:
        return
    if loss["seconds"] is None or loss["seconds"] > budget:
        seconds = "not known" if loss["seconds"] is None else f"{loss['seconds']:.1f} s"
        hint = 'drkit failover --resume --accept-data-loss "REASON"; or drkit failover --abort'
        evidence = f"{seconds}, rpo_seconds = {budget:g}; {loss['statement']}"
        raise Refused("rpo_exceeded", where=context.flow.name, evidence=evidence, hint=hint)
