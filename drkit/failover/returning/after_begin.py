"""REPLAY and DONE: append exported records to the new primary if so decided; name who copies it.

REPLAY killed anywhere and repeated appends each record once: the progress is in the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

from drkit.config import FlowSettings
from drkit.counted import counted, first_of
from drkit.failover.checks.run_opening import person
from drkit.failover.core.context import Context
from drkit.failover.core.request import Disposition
from drkit.failover.core.reverse import reverse
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.old_primary.lost_tail import Saved, forget_saved, to_append
from drkit.failover.returning.begin import LIFT
from drkit.failover.returning.deciding import decided
from drkit.failover.returning.replays import APPENDS, of_own_export, planned_replay, tell_replay
from drkit.failover.returning.scope import promoted
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.records import ReturnRecord
from drkit.flow_state.unreplayed import UnreplayedEnd
from drkit.journal.machine import RETURN, StepName
from drkit.kafka.transactions import hanging
from drkit.pair.promotions import still_away
from drkit.replay.run import note_replayed
from drkit.replay.writer import Results

_ENDS: Final = {
    Disposition.REPLAY: UnreplayedEnd.REPLAYED, Disposition.QUARANTINE: UnreplayedEnd.QUARANTINED,
}  # fmt: skip


class ReplayStep(Step):
    """REPLAY: appends exported records to the new primary."""

    name = StepName.REPLAY

    def plan(self, context: Context) -> list[StepEffect]:
        return [
            StepEffect(f"append exported records of {topic}", context.flow.target, str(disposition))
            for disposition in APPENDS
            for topic in of_own_export(context, _topics(context, disposition))
        ]

    def run(self, context: Context) -> StepResult:
        evidence: dict[str, Any] = {}
        notes: list[str] = []
        for disposition in APPENDS:
            for each in to_append(context, disposition):
                evidence[f"{disposition} {each.name}"] = numbers = self._append_earlier(
                    context, disposition, each
                )
                notes += _notes(f"{disposition} of {each.topic} from {each.record.manifest}", numbers)
            if topics := of_own_export(context, _topics(context, disposition)):
                evidence[disposition] = numbers = self._append(context, disposition, topics)
                notes += _notes(disposition, numbers)
        return StepResult(evidence, tuple(notes))

    def undo(self, context: Context) -> StepResult:
        """Report that what was appended stays."""
        if not context.effects(self.name):
            return StepResult()
        note = f"exported records that were appended to {context.flow.target} stay there"
        return StepResult({"pending": note}, (note,))

    def _append(self, context: Context, disposition: Disposition, topics: Collection[str]) -> dict[str, Any]:
        with (
            context.effect(self.name, disposition.value, topics=sorted(topics)) as outcome,
            planned_replay(context, disposition, topics) as (replayer, plan),
        ):
            outcome.update(_numbers(replayer.run(plan, partial(tell_replay, context, self.name))))
        return dict(outcome)

    def _append_earlier(self, context: Context, disposition: Disposition, each: Saved) -> dict[str, Any]:
        with (
            context.effect(self.name, f"{disposition} {each.name}", manifest=each.record.manifest) as outcome,
            planned_replay(context, disposition, [each.topic], earlier=each) as (replayer, plan),
        ):
            done = replayer.run(plan, partial(tell_replay, context, self.name))
            note_replayed(context.state, plan.export, done, _ENDS[disposition], person(), context.wall)
            outcome.update(_numbers(done))
        return dict(outcome)


def _topics(context: Context, disposition: Disposition) -> list[str]:
    return sorted(t for t, d in decided(context).items() if d.disposition is disposition and not d.keeps)


def _numbers(done: Results) -> dict[str, dict[str, int]]:
    return {
        str(tp): {"appended": r.appended, "already": r.already, "kept back": r.skipped_changed_keys}
        for tp, r in sorted(done.items())
    }


def _notes(disposition: str, numbers: dict[str, dict[str, int]]) -> list[str]:
    appended, already, older = (
        sum(r[key] for r in numbers.values()) for key in ("appended", "already", "kept back")
    )
    notes = [f"{disposition}: {counted(appended, 'record')} appended, {already} were there already"]
    if older:
        notes.append(f"{counted(older, 'record')} left out: clients have written newer values of their keys")
    return notes


class ProtectedStep(Step):
    """DONE: names what protects the new primary."""

    name = StepName.DONE

    def plan(self, context: Context) -> list[StepEffect]:
        return [StepEffect("say who copies", f"{context.flow.target}->{context.flow.source}")]

    def run(self, context: Context) -> StepResult:
        forget_saved(context)
        with reverse(context) as back:
            runner = replicator_of(back.state.records, context.wall())
            done = back.state.all(ReturnRecord)
        host = runner.host if runner is not None and runner.alive else ""
        others = {t: role for t, role in promoted(context).items() if t not in context.scope.topics}
        copies = {topic: known[0] for topic, known in context.known.topics.items()}
        left = list(still_away(others, copies, done))
        lines = [*copied_by(context.flow, context.scope.topics.values(), host, left), *self._hanging(context)]
        return StepResult({"next": lines, "copied_by": host}, tuple(lines))

    def _hanging(self, context: Context) -> list[str]:
        """Return what to do before a switchover back, where the fence was one by size."""
        source = context.source()
        lifted = any(name.startswith(LIFT) for name in context.effects(StepName.BEGIN))
        if not lifted or source is None:
            return []
        brokers_of: dict[str, int] = context.run(hanging, source, context.wall(), context.scope.topics)
        if not brokers_of:
            return []
        brokers = ", ".join(map(str, sorted(set(brokers_of.values()))))
        action = f"before a switchover back restart broker {brokers} of {context.flow.source}"
        return [f"{action}: the fence refused markers of {first_of(sorted(brokers_of))}"]


def copied_by(flow: FlowSettings, topics: Iterable[str], host: str, left: Sequence[str]) -> list[str]:
    """Return what protects the new primary after a return. Pure.

    :param flow: the flow that was failed over
    :param topics: those that have returned, by their names on the new primary
    :param host: the host of a live replicator of the flow back; empty without one
    :param left: promoted topics that are still to be failed back, by their names on the old primary
    """
    flow_back = f"{flow.target}->{flow.source}"
    if host:
        text = first_of(sorted(topics))
        line = f"{flow_back} on {host} copies {text}: protected once drkit status says PROTECTED of them"
    else:
        line = f"{flow.target} is not protected until it is copied: drkit replicate --flow '{flow_back}'"
    if not left:
        return [line]
    text, it = counted(len(left), "other topic", "has"), "it" if len(left) == 1 else "them"
    evidence = f"{text} not returned, and nothing copies {it} ({first_of(sorted(left))})"
    return [line, f"{evidence}: {RETURN.typed('--flow', flow.name)}"]
