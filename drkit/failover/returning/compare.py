"""COMPARE: every partition of the old primary is what was copied, and the new primary has it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from drkit.counted import counted, first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import CopyFate, DivergenceState, PartitionDivergence
from drkit.failover.returning.first_record import first_record
from drkit.flow_state.records import RoleRecord
from drkit.model import TopicPartition

_FIRST: Final = "find out what happened there"
_DEPTH: Final = 100
"""Records of each partition that are compared by content."""


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
        cuts_of(context)
        ends = refuse_diverged(context)
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
    """The ends of the old primary's partitions, which have the same records as their copies up to the cut.

    A switchover found both sides equal, under a proven fence. So what differs now came later, and every later
    loss or write shows in the last records: some are enough.

    :raises Refused: one side has a record that the other has not
    :raises Failed: it is unknown
    """
    found = divergence(context, topics=context.scope.topics, depth=_DEPTH, commits=False)
    tails = found.tails
    if found.unanswered:
        raise Failed(
            "the old primary stopped answering",
            where=context.flow.source,
            evidence=found.unanswered,
            hint="drkit reprotect --resume",
        )
    _refuse_other_copies(context, tails)
    if unknown := [t for t in tails if t.found is DivergenceState.UNKNOWN]:
        raise Failed(
            "what the old primary has is unknown",
            where=context.flow.source,
            evidence=first_of(f"{t.topic}-{t.partition}: {t.why}" for t in unknown),
            hint="drkit status; then: drkit reprotect --resume",
        )
    wrong = [t for t in tails if t.found is not DivergenceState.CLEAN or t.open_transaction]
    if wrong:
        some = (f"{t.topic}-{t.partition}: {t.in_words}" for t in wrong)
        raise Refused(
            f"{counted(len(wrong), 'partition')} of the old primary is not what was copied",
            where=context.flow.source,
            evidence=first_of(some),
            hint=f"drkit divergence --flow '{context.flow.name}' says what only it has; this version cannot"
            " bring it home",
        )
    if strange := [t for t in tails if t.only_new]:
        raise Refused(
            "the new primary has records of somebody else from when it was the standby",
            where=context.flow.target,
            evidence=first_of(f"{t.topic}-{t.partition} at {t.only_new_from}" for t in strange),
            hint="the old primary lacks them; this version cannot bring it home",
        )
    return {TopicPartition(t.topic, t.partition): t.end for t in tails if t.end is not None}


def _refuse_other_copies(context: Context, tails: Iterable[PartitionDivergence]) -> None:
    """Refuse copies that are not those of the switchover any more.

    :raises Refused: there is one
    """
    names = context.scope.topics
    gone = {CopyFate.RECREATED: "was made anew", CopyFate.GONE: "is gone"}
    if wrong := [t for t in tails if t.copy in gone]:
        raise Refused(
            "a promoted topic was made anew on the new primary",
            where=context.flow.target,
            evidence=first_of(f"{names[t.topic]}-{t.partition} {gone[t.copy]}" for t in wrong),
            hint=f"{_FIRST}: its records are not those that the old primary has a copy of",
        )
    if short := [t for t in tails if t.copy is CopyFate.REGRESSED]:
        cuts = cuts_of(context)
        raise Refused(
            "the new primary has lost records that it had when it was promoted",
            where=context.flow.target,
            evidence=first_of(
                f"{names[t.topic]}-{t.partition} has its records up to {t.copy_end}, it ended at"
                f" {cuts[TopicPartition(t.topic, t.partition)]} when it was promoted"
                for t in short
            ),
            hint=f"{_FIRST}; the old primary may be the only one that has them",
        )
