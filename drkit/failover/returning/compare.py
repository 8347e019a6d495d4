"""COMPARE: every partition of the old primary is what was copied, and the new primary has it all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drkit.counted import counted, first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import DivergenceState
from drkit.failover.loss.positions import ScopePositions, scope_positions
from drkit.failover.returning.first_record import first_record, has_record
from drkit.failover.returning.scope import pairs
from drkit.flow_state.copied_topics import written_of
from drkit.flow_state.records import EventRecord, ReturnRecord, RoleRecord
from drkit.kafka.partition_offsets import listed
from drkit.kafka.requests import LATEST, metadata
from drkit.model import TopicPartition
from drkit.offsets import Unavailable

_FIRST: Final = "find out what happened there"


class CompareStep:
    """See the module."""

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.core.step.Step`."""
        return StepName.COMPARE

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        found = self.run(context)
        return [StepEffect("compare both sides", context.flow.name, first_of(found.notes))]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Refused: a partition is not what was copied
        :raises Failed: it is unknown
        """
        context.state.load()
        ends = refuse_diverged(context)
        self._new_primary(context)
        self._nothing_after_the_copied(context, ends)
        at = {str(p): end for p, end in sorted(ends.items())}
        notes = (
            f"{counted(len(at), 'partition', 'is')} as copied: nothing is on {context.flow.source} only",
        )
        return StepResult({"ends": at}, notes)

    def prove(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`."""
        return StepResult()

    def undo(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`."""
        return StepResult()

    def _nothing_after_the_copied(self, context: Context, ends: Mapping[TopicPartition, int]) -> None:
        """Refuse an old primary into which the reverse flow has copied before its return began.

        :raises Refused: a record stands there
        """
        roles = context.state.all(RoleRecord)
        copied = []
        for at, end in ends.items():
            frontier = (roles[at.topic].frontiers or {}).get(at.partition)
            source = context.source()
            if frontier is not None and frontier < end and source is not None:
                found: int | None = context.run(first_record, source, at, (frontier, end))
                copied += [f"{at} at {found}"] if found is not None else []
        if copied:
            raise Refused(
                "the old primary already has records that were copied back to it",
                where=context.flow.source,
                evidence=first_of(copied),
                hint="another replicator copies there: stop it; this version cannot bring it home",
            )

    def _new_primary(self, context: Context) -> None:
        """Refuse copies that are not those of the switchover any more."""
        wanted = pairs(context)
        topics = context.run(metadata, context.target, sorted(context.scope.topics.values()))
        wrong = [str(w.target) for w in wanted if topics[w.target.topic].topic_id != w.target_id]
        if wrong:
            raise Refused(
                "a promoted topic was made anew on the new primary",
                where=context.flow.target,
                evidence=first_of(wrong),
                hint=f"{_FIRST}: its records are not those that the old primary has a copy of",
            )
        _refuse_strangers(context, {w.source for w in wanted})
        ends = context.run(listed, context.target, topics, [w.target for w in wanted], LATEST)
        cuts = cuts_of(context)
        short = [f"{w.target} ends at {ends.get(w.target)}, it ended at {cuts[w.source]} when it was promoted"
                 for w in wanted if ends.get(w.target, -1) < cuts[w.source]]  # fmt: skip
        if short:
            raise Refused(
                "the new primary has lost records that it had when it was promoted",
                where=context.flow.target,
                evidence=first_of(short),
                hint=f"{_FIRST}; the old primary may be the only one that has them",
            )


def _refuse_strangers(context: Context, wanted: set[TopicPartition]) -> None:
    """Refuse copies into which somebody else wrote while they were passive: the old primary lacks that.

    :raises Refused: there is one
    """
    cuts = cuts_of(context)
    # Before the flow's own return, the copy was a primary that clients wrote to.
    since = {topic: known.at_ms for topic, known in context.state.all(ReturnRecord).items()}
    strange = [
        event
        for event in context.state.all(EventRecord).values()
        if event.kind == "foreign_writer"
        and TopicPartition(event.topic, event.partition) in wanted
        and event.at_ms >= since.get(event.topic, 0)
    ]
    places: ScopePositions = scope_positions(context, None)
    found = [f"{e.topic}-{e.partition}" for e in strange]
    seen = {at: r.offset for at, r in written_of(context.state.records).items() if at in wanted}
    found += [f"{at} at {offset}" for at, offset in seen.items() if offset < cuts[at]]
    for at, place in places.items():
        if isinstance(place, Unavailable):
            raise Failed(
                "how a copy maps to the old primary is unknown",
                where=str(at),
                evidence=place.reason,
                hint="drkit status; then: drkit reprotect --resume",
            )
        if place.copied_end < cuts[at]:
            target = TopicPartition(context.scope.topics[at.topic], at.partition)
            span = (place.copied_end, cuts[at])
            if context.run(has_record, context.target, target, span):
                found.append(f"{target} between {span[0]} and {span[1]}")
    if found:
        raise Refused(
            "the new primary has records of somebody else from when it was the standby",
            where=context.flow.target,
            evidence=first_of(found),
            hint="the old primary lacks them; this version cannot bring it home",
        )


def cuts_of(context: Context) -> dict[TopicPartition, int]:
    """Where producers of the new primary began to write, by partition of the old one, from the loaded state.

    :raises Failed: the switchover has not recorded it
    """
    roles = context.state.all(RoleRecord)
    found: dict[TopicPartition, int] = {}
    for name in context.scope.topics:
        for number, end in (roles[name].ends or {}).items():
            if end is None:
                raise Failed(
                    "where the new primary begins is not on record",
                    where=f"{name}-{number} of {context.flow.name}",
                    evidence=f"the switchover {roles[name].run_id} has not recorded the end of its copy",
                    hint="this version cannot bring it home",
                )
            found[TopicPartition(name, number)] = end
    return found


def refuse_diverged(context: Context) -> dict[TopicPartition, int]:
    """The ends of the old primary's partitions, of which none has a record that was not copied.

    :raises Refused: one has, or lost some
    :raises Failed: it is unknown
    """
    found = divergence(context)
    if found.unanswered:
        raise Failed(
            "the old primary stopped answering",
            where=context.flow.source,
            evidence=found.unanswered,
            hint="drkit reprotect --resume",
        )
    mine = [t for t in found.tails if t.topic in context.scope.topics]
    wrong = [t for t in mine if t.found is not DivergenceState.CLEAN or t.open_transaction or t.end is None]
    if wrong:
        some = (f"{t.topic}-{t.partition}: {t.why or t.found}{', an open transaction' * t.open_transaction}"
                for t in wrong)  # fmt: skip
        raise Refused(
            f"{counted(len(wrong), 'partition')} of the old primary is not what was copied",
            where=context.flow.source,
            evidence=first_of(some),
            hint=f"drkit divergence --flow '{context.flow.name}' says what only it has; this version cannot"
            " bring it home",
        )
    return {TopicPartition(t.topic, t.partition): t.end for t in mine if t.end is not None}
