"""REPLAY: exported records are appended to the new primary, if that was decided, then copied back.

Killed anywhere and repeated, each record is appended once: the progress is in the transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final

from drkit.counted import counted
from drkit.failover.checks.decision import person
from drkit.failover.core.choices import Disposition
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.old_primary.gone import Saved
from drkit.failover.old_primary.lost_tail import to_append
from drkit.failover.returning.deciding import decided
from drkit.failover.returning.replays import of_own_export, planned_replay
from drkit.flow_state.unreplayed import UnreplayedEnd
from drkit.replay.progress import ReplayProgress
from drkit.replay.run import note_replayed
from drkit.replay.writer import Results

_APPENDS: Final = (Disposition.REPLAY, Disposition.QUARANTINE)
_ENDS: Final = {
    Disposition.REPLAY: UnreplayedEnd.REPLAYED, Disposition.QUARANTINE: UnreplayedEnd.QUARANTINED,
}  # fmt: skip


class ReplayStep(Step):
    """See the module."""

    name = StepName.REPLAY

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        return [
            StepEffect(f"append exported records of {topic}", context.flow.target, str(disposition))
            for disposition in _APPENDS
            for topic in of_own_export(context, _topics(context, disposition))
        ]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Refused: the new primary has records with equal content, without a decision what they are; or
            the export is not what was written
        :raises DrkitError: the new primary does not answer, or refuses
        """
        evidence: dict[str, Any] = {}
        notes: list[str] = []
        for disposition in _APPENDS:
            for each in to_append(context, disposition):
                evidence[f"{disposition} {each.name}"] = found = self._append_earlier(
                    context, disposition, each
                )
                notes += _notes(f"{disposition} of {each.topic} from {each.record.manifest}", found)
            if topics := of_own_export(context, _topics(context, disposition)):
                evidence[disposition] = found = self._append(context, disposition, topics)
                notes += _notes(disposition, found)
        return StepResult(evidence, tuple(notes))

    def undo(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`: what was appended stays."""
        if not context.effects(self.name):
            return StepResult()
        note = f"exported records that were appended to {context.flow.target} stay there"
        return StepResult({"pending": note}, (note,))

    def _append(self, context: Context, disposition: Disposition, topics: Collection[str]) -> dict[str, Any]:
        with (
            context.effect(self.name, disposition.value, topics=sorted(topics)) as outcome,
            planned_replay(context, disposition, topics) as (replayer, plan),
        ):
            outcome.update(_numbers(replayer.run(plan, partial(_told, context))))
        return dict(outcome)

    def _append_earlier(self, context: Context, disposition: Disposition, each: Saved) -> dict[str, Any]:
        """Append from an earlier export what the old primary has lost since."""
        with (
            context.effect(self.name, f"{disposition} {each.name}", manifest=each.record.manifest) as outcome,
            planned_replay(context, disposition, [each.topic], earlier=each) as (replayer, plan),
        ):
            done = replayer.run(plan, partial(_told, context))
            note_replayed(context.state, plan.export, done, _ENDS[disposition], person(), context.wall)
            outcome.update(_numbers(done))
        return dict(outcome)


def _topics(context: Context, disposition: Disposition) -> list[str]:
    """Topics whose records are appended now; a tail that was kept was appended in BEGIN."""
    return sorted(t for t, d in decided(context).items() if d.disposition is disposition and not d.keeps)


def _numbers(done: Results) -> dict[str, dict[str, int]]:
    return {
        str(at): {"appended": r.appended, "already": r.already, "kept back": r.skipped_changed_keys}
        for at, r in sorted(done.items())
    }


def _notes(disposition: str, found: dict[str, dict[str, int]]) -> list[str]:
    appended, already, kept = (
        sum(r[what] for r in found.values()) for what in ("appended", "already", "kept back")
    )
    notes = [f"{disposition}: {counted(appended, 'record')} appended, {already} were there already"]
    if kept:
        notes.append(f"{counted(kept, 'record')} left out: clients have written newer values of their keys")
    return notes


def _told(context: Context, progress: ReplayProgress) -> None:
    line = f"{progress.at}: {progress.appended} appended, up to {progress.next} of the old primary"
    context.tell(StepProgress(StepName.REPLAY, line))
    context.journal.renew()
