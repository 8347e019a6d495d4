"""DECIDE: what becomes of the records that only the old primary has, and how each log is brought in step.

A person decides, by name and with a reason; a topic for which only one method is sound needs no choice.
After a switchover there is nothing to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.checks.run_opening import person
from drkit.failover.core.commands import begin_command, decision_commands, is_held
from drkit.failover.core.context import Context
from drkit.failover.core.request import Disposition, Method, choice_for, choices_among, refuse_unknown
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.old_primary.lost_tail import (
    Gone,
    forget_covered,
    forget_discarded,
    gone_of,
    is_given_up,
    note_decided,
)
from drkit.failover.returning.compare import NeedsMethod, method_of, of_json
from drkit.failover.returning.exporting import EXPORT
from drkit.failover.returning.gates import (
    Methods,
    refuse_keep_of_gone,
    refuse_lagging_replicas,
    refuse_methods,
)
from drkit.failover.returning.replays import is_left, left_notes, refuse_dispositions, refuse_replays
from drkit.failover.returning.scope import not_returned, pairs
from drkit.failover.returning.seeds import refuse_removed
from drkit.flow_state.records import TailRecord
from drkit.journal.machine import RETURN, StepName
from drkit.model import TopicPartition

DECISION: Final = "decision"


_DOES: Final = {
    Method.DELTA: "continue",
    Method.REBUILD: "empty and copy all of",
    Method.TRIM: "empty and copy the newest of",
    Method.KEEP: "keep the tail, append it to the new primary, and continue",
}


class Undecided(Refused):
    """A decision is missing: what becomes of records, or why partitions are emptied."""

    topics: Mapping[str, int]
    """Topics whose records need a disposition, and how many records."""
    needs_reason: bool


class TopicDecision(NamedTuple):
    """The decision about one topic of the old primary."""

    disposition: Disposition | None
    """None if the topic has no records that only the old primary has."""
    methods: Mapping[int, Method]

    @property
    def keeps(self) -> bool:
        """Return whether the topic's tail stays on the old primary."""
        return Method.KEEP in self.methods.values()

    def to_json(self) -> dict[str, Any]:
        """Return the decision as plain data, for the journal."""
        return {"disposition": self.disposition, "methods": {str(p): m for p, m in self.methods.items()}}


class DecideStep(Step):
    """DECIDE: records what a person has decided, or refuses until it is decided."""

    name = StepName.DECIDE

    def plan(self, context: Context) -> list[StepEffect]:
        """Return the plan; it names what is not decided yet, and does not refuse it."""
        unsound = unsound_of(context)
        methods, lost = allowed(context, unsound)
        if (open_ := undecided(context, unsound, methods)) is None:
            refuse_lagging_replicas(context, {tp.topic for tp, m in methods.items() if m.empties})
        context.journal.found[self.name] = {"topics": _chosen(context, unsound, methods, lost)}
        alias = context.flow.source
        reasons, grouped = {u.at: u.why for u in unsound}, dict[tuple[str, Method], list[TopicPartition]]()
        for tp, method in sorted(methods.items()):
            grouped.setdefault((tp.topic, method), []).append(tp)
        lines = [
            StepEffect(
                f"{_DOES[method]} {counted(len(partitions), 'partition')}",
                f"{alias}: {topic}",
                next((reasons[tp] for tp in partitions if tp in reasons), "asked for"),
            )
            for (topic, method), partitions in grouped.items()
        ]
        for topic, each in sorted(lost.items()):
            lines.append(StepEffect(f"{alias} has lost records", f"{alias}: {topic}", each.in_words))
        if open_ is not None:
            lines.append(StepEffect("a decision is required", context.flow.name, open_.evidence))
        return lines

    def run(self, context: Context) -> StepResult:
        context.state.load()
        unsound = unsound_of(context)
        methods, lost = allowed(context, unsound)
        if (error := undecided(context, unsound, methods)) is not None:
            raise error
        refuse_lagging_replicas(context, {tp.topic for tp, m in methods.items() if m.empties})
        chosen = _chosen(context, unsound, methods, lost)
        if not chosen:
            return StepResult({"topics": {}})
        expiring = refuse_replays(context, chosen, lost)
        reason, by = context.request.reason, person()
        unreplayed = left_notes(context, (t for t in chosen if t not in lost or not lost[t].exported))
        with context.effect(self.name, DECISION, topics=chosen, reason=reason, by=by):
            self._note(context, chosen, by)
            note_decided(context, lost, chosen, by)
            if (own := context.effects(StepName.EXPORT).get(EXPORT)) is not None:
                forget_covered(context, chosen, own["intent"]["run"])
        notes = [f"decided by {by}: {reason}" if reason else f"decided by {by}"]
        for topic, decision in sorted(chosen.items()):
            text = decision["disposition"] or ("" if topic in lost else "nothing is given up")
            gone = lost[topic].in_words if topic in lost else ""
            text = "; ".join(filter(None, (text, gone)))
            kinds = sorted({str(m) for m in decision["methods"].values()})
            notes.append(f"{topic}: {text}; {', '.join(kinds)}")
        return StepResult({"topics": chosen, "reason": reason, "by": by}, (*notes, *unreplayed, *expiring))

    def undo(self, context: Context) -> StepResult:
        """Keep the decision on record; the next return decides about what was discarded."""
        if context.effects(self.name):
            context.state.load()
            # Without BEGIN no topic has begun, and the old primary need not answer.
            forget_discarded(
                context, not_returned(context) if context.effects(StepName.BEGIN) else context.scope.topics
            )
        return StepResult()

    def _note(self, context: Context, chosen: Mapping[str, Mapping[str, Any]], by: str) -> None:
        for topic, decision in chosen.items():
            known = context.state.get(TailRecord, topic)
            is_kept = known is not None and (known.run_id == context.run_id or is_left(context, topic, known))
            known = known if is_kept else None
            context.state.put(
                TailRecord(
                    run_id=context.run_id,
                    at_ms=context.wall(),
                    records=known.records if known is not None else 0,
                    spans=known.spans if known is not None else {},
                    manifest=known.manifest if known is not None else None,
                    sha256=known.sha256 if known is not None else None,
                    disposition=decision["disposition"],
                    methods={int(p): str(m) for p, m in decision["methods"].items()},
                    reason=context.request.reason,
                    by=by,
                ),
                topic,
            )


def unsound_of(context: Context) -> list[NeedsMethod]:
    """Return the partitions that COMPARE has found unsound."""
    return of_json(context.result(StepName.COMPARE).get("unsound", ()))


def methods_of(context: Context, unsound: Iterable[NeedsMethod]) -> dict[TopicPartition, Method]:
    """Return the method of each partition of the scope, except of those that simply continue."""
    wrong = {u.at for u in unsound}
    methods = {}
    for pair in pairs(context):
        chosen = choice_for(context.request.methods, pair.source.topic)
        method = method_of(chosen, is_sound=pair.source not in wrong)
        if method is not Method.DELTA or pair.source in wrong:
            methods[pair.source] = method
    for tp in wrong - {pair.source for pair in pairs(context)}:
        # Both sides got it since the failover, each with records of its own: there is no cut to trim to.
        chosen = choice_for(context.request.methods, tp.topic)
        methods[tp] = Method.DELTA if chosen == Method.DELTA else Method.REBUILD
    return methods


def allowed(context: Context, unsound: Sequence[NeedsMethod]) -> tuple[Methods, dict[str, Gone]]:
    """Return each partition's method, and lost records by topic. Raises Refused if a choice is unsound."""
    topics = context.scope.topics
    begin = begin_command(context, choices_among(context.request, topics))
    command = f"{RETURN.abort}, then: {begin}" if is_held(context) else begin  # a run keeps its request
    refuse_unknown(context.request, topics, context.flow.name, command)
    methods = methods_of(context, unsound)
    refuse_methods(context, unsound, methods)
    refuse_removed(context, topics)
    lost = gone_of(context, (u.tail for u in unsound))
    refuse_dispositions(context, unsound, lost)
    refuse_keep_of_gone(context, lost, methods)
    return methods, lost


def undecided(context: Context, unsound: Iterable[NeedsMethod], methods: Methods) -> Undecided | None:
    """Return the decisions that are missing before anything is destroyed, or None."""
    tails: dict[str, int] = {}
    unsound = list(unsound)
    gone = gone_of(context, (u.tail for u in unsound))
    for u in unsound:
        if u.has_tail and choice_for(context.request.dispositions, u.at.topic) is None:
            tails[u.at.topic] = tails.get(u.at.topic, 0) + u.tail.records
    for topic, each in gone.items():
        if each.exported and choice_for(context.request.dispositions, topic) is None:
            tails[topic] = tails.get(topic, 0) + each.records
    lost = [g for t, g in sorted(gone.items()) if g.lost and not is_given_up(context.request, t)]
    no_reason = any(m.empties for m in methods.values()) and not context.request.reason
    if not (tails or lost or no_reason):
        return None
    missing = [
        f"{t}: what becomes of {counted(n, 'record')}"
        + (f", of which {gone[t].in_words}" if t in gone and gone[t].exported else "")
        for t, n in sorted(tails.items())
    ]
    missing += [f"{g.topic}: {g.in_words}" for g in lost]
    emptied = sum(m.empties for m in methods.values())
    reasons = [f"{u.at}: {u.why}" for u in unsound if u.at in methods and methods[u.at].empties]
    detail = f" ({first_of(reasons)})" if reasons else ""
    missing += [f"why {counted(emptied, 'partition', 'is')} emptied{detail}"] if no_reason else []
    hint = decision_commands(context, tails, [g.topic for g in lost])
    error = Undecided("decision_missing", where=context.flow.source, evidence=first_of(missing), hint=hint)
    error.topics, error.needs_reason = tails, no_reason
    return error


def still_undecided(context: Context) -> Undecided | None:
    """Return the decisions that are missing after COMPARE, or None."""
    unsound = unsound_of(context)
    return undecided(context, unsound, methods_of(context, unsound))


def decided(context: Context) -> dict[str, TopicDecision]:
    """Return the decisions by topic, except of topics whose records simply follow."""
    return {
        topic: TopicDecision(
            Disposition(raw["disposition"]) if raw["disposition"] else None,
            {int(p): Method(m) for p, m in raw["methods"].items()},
        )
        for topic, raw in context.result(StepName.DECIDE).get("topics", {}).items()
    }


def _chosen(
    context: Context, unsound: Iterable[NeedsMethod], methods: Methods, lost: Mapping[str, Gone]
) -> dict[str, dict[str, Any]]:
    exported = {t for t, g in lost.items() if g.exported}
    with_tail = {u.at.topic for u in unsound if u.has_tail} | exported
    chosen: dict[str, dict[str, Any]] = {}
    for topic in sorted({tp.topic for tp in methods} | exported):
        disposition = choice_for(context.request.dispositions, topic) if topic in with_tail else None
        own = {tp.partition: m for tp, m in sorted(methods.items()) if tp.topic == topic}
        chosen[topic] = TopicDecision(Disposition(disposition) if disposition else None, own).to_json()
    return chosen
