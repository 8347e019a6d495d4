"""Fences beside a failover: what stands, what is owed, paying it at the first contact, taking them away.

A run that can still be aborted owns its fence: it is resumed or aborted, and nothing is done here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from drkit import observe
from drkit.errors import ClusterUnreachable, ConfigError, DrkitError, Refused
from drkit.failover.core.context import Context, Scope
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.desk import FailoverService
from drkit.failover.fencing.lift import lift_fences
from drkit.failover.fencing.methods import ACL, SIZE, canary_rights, recorded_acls, recorded_sizes
from drkit.failover.fencing.proof import Proof, prove, worth_of
from drkit.failover.journal.journal import NoJournal
from drkit.failover.steps.fence import FenceStep
from drkit.flow_state.copied_topics import promoted_of
from drkit.flow_state.fence_debt import settle
from drkit.flow_state.records import FenceDebt, PendingLift

_SHOWN: Final = 5
_OWED: Final = "owed"
_UP: Final = ", then: drkit fence pay"


class TopicFence(NamedTuple):
    """The fence of one topic of the source."""

    topic: str
    fence: str
    """``acl``, ``max.message.bytes``, ``owed``, or empty: drkit knows of none."""
    takes_writes: str
    """What a canary was told just now: ``no``, ``yes`` with the partitions, or why nobody knows."""
    promoted: bool
    """The new primary owns it."""


class Fences(NamedTuple):
    """All fences of a flow's source."""

    flow: str
    cluster: str
    topics: tuple[TopicFence, ...]
    debt: FenceDebt | None
    lift: PendingLift | None
    """Fences that are to be lifted at the first contact."""
    unanswered: str
    """Why the cluster could not be asked; empty: it was."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        debt = None if self.debt is None else self.debt.to_json()
        lift = None if self.lift is None else self.lift.to_json()
        return {
            "flow": self.flow, "cluster": self.cluster, "unanswered": self.unanswered, "owed": debt,
            "lift_pending": lift, "topics": [t._asdict() for t in self.topics],
        }  # fmt: skip


class _Beside(NoJournal):
    """No run journals these effects; they stand in the flow's state, and in the log."""

    @contextmanager
    def effect(self, step: StepName, name: str, details: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """See :class:`drkit.failover.core.context.JournalView`."""
        observe.event("fence_changes", step=step.value, effect=name, details=dict(details))
        outcome: dict[str, Any] = {}
        yield outcome


class _Payment(FenceStep):
    """The step FENCE of a failover that is over: a source that goes away again is not stopped by the site."""

    def _silent(self, context: Context) -> StepResult:
        raise _unreachable(context, _UP)

    def _unproven(self, context: Context, proof: Proof) -> StepResult:
        some = ", ".join(f"{at}: {why}" for at, why in sorted(proof.open.items())[:_SHOWN])
        raise Refused(
            f"{len(proof.open)} partitions of the old primary still take writes",
            where=context.flow.source,
            evidence=some,
            hint="see means and canary in [failover.fence] (super users pass every ACL)" + _UP,
        )


def shown(desk: FailoverService) -> Fences:
    """What stands, what is owed, and what a canary says of it. Changes nothing.

    :raises DrkitError: the target cannot be read
    """
    context = _context(desk)
    debt = context.state.get(FenceDebt)
    acls, sizes = recorded_acls(context.state), recorded_sizes(context.state)
    owed = set(debt.topics) if debt is not None else set()
    promoted = promoted_of(context.state.records) & context.known.topics.keys()
    # One that was put up before it was owed again may be gone since: what is owed comes first.
    kinds = dict.fromkeys(promoted, "") | dict.fromkeys(sizes, SIZE) | {a.name: ACL for a in acls}
    kinds |= dict.fromkeys(owed, _OWED)
    unanswered = "" if context.source() is not None else context.source_error
    answers = {} if unanswered else _asked(context, sorted(kinds))
    rows = (
        TopicFence(t, kind, answers.get(t, unanswered or "not asked"), t in promoted)
        for t, kind in sorted(kinds.items())
    )
    lift = context.state.get(PendingLift)
    return Fences(context.flow.name, context.flow.source, tuple(rows), debt, lift, unanswered)


def planned(desk: FailoverService) -> list[StepEffect]:
    """What paying would do now; changes nothing.

    :raises DrkitError: as :func:`pay`
    """
    context = _context(desk)
    debt, lift = _due(desk, context)
    if (debt is not None or lift is not None) and context.source() is None:
        raise _unreachable(context, _UP)
    effects = []
    if lift is not None:
        effects.append(
            StepEffect(f"lift the fences of {len(lift.topics)} topics", context.flow.source, lift.why)
        )
    if debt is not None:
        effects += FenceStep().plan(_for(desk, context, debt.topics))
    return effects


def apply_pending(desk: FailoverService) -> StepResult | None:
    """Do what could not be done while the old primary was silent; None when nothing is owed.

    Lift the fences of failovers that were taken back; put up the fence that is owed, prove it, resolve open
    transactions.

    It may be repeated, and two at once do the same.

    :raises ClusterUnreachable: the old primary does not answer
    :raises Refused: it still takes writes; or a failover that can be aborted is under way
    :raises DrkitError: it refuses what has to be done
    """
    context = _context(desk)
    debt, lift = _due(desk, context)
    if debt is None and lift is None:
        return None
    if context.source() is None:
        raise _unreachable(context, _UP)
    done = StepResult()
    if lift is not None:
        done = StepResult({}, (_lifted(context, lift),))
    if debt is not None:
        paid = _Payment().run(_for(desk, context, debt.topics))
        observe.event("fence_paid", flow=context.flow.name, run=debt.run_id, topics=list(debt.topics),
                      evidence=list(paid.notes))  # fmt: skip
        done = StepResult(paid.evidence, (*done.notes, *paid.notes))
    return done


def _lifted(context: Context, lift: PendingLift) -> str:
    """Lift what is to be lifted, but for topics that were promoted since."""
    promoted = promoted_of(context.state.records)
    topics = [t for t in lift.topics if t not in promoted]
    lift_fences(context, topics)
    settle(context.state, PendingLift, lift.topics)
    observe.event("fence_lifted", flow=context.flow.name, topics=topics, reason=lift.in_words)
    return f"the fences of {len(topics)} topics were lifted: run {lift.run_id} was taken back"


def liftable(desk: FailoverService, topics: Collection[str], reason: str) -> list[str]:
    """The topics whose fences, or debts, would be taken away.

    :param topics: of the source; empty: all
    :param reason: why topics may be lifted that the new primary owns
    :raises ConfigError: a topic has none
    :raises Refused: both clusters would take writes, and there is no reason; or a failover is under way
    """
    context = _context(desk)
    debt, _ = _due(desk, context)
    acls, sizes = recorded_acls(context.state), recorded_sizes(context.state)
    known = {*sizes, *(a.name for a in acls), *(debt.topics if debt is not None else ())}
    if unknown := sorted(set(topics) - known):
        raise ConfigError(
            f"drkit has put up no fence for {unknown[0]}",
            where=f"--topic, flow {context.flow.name}",
            evidence=f"it knows of {len(known)} fenced topics",
            hint="drkit fence show names them",
        )
    wanted = sorted(topics or known)
    promoted = promoted_of(context.state.records)
    both = [t for t in wanted if t in promoted]
    if both and not reason:
        raise Refused(
            "the new primary owns these topics: lifted, both clusters would take writes",
            where=context.flow.source,
            evidence=f"promoted: {', '.join(both[:_SHOWN])}",
            hint="keep them fenced; or, if nobody writes there any more: drkit fence lift --accept-divergence"
            ' "REASON"',
        )
    return wanted


def lift(desk: FailoverService, topics: Collection[str], reason: str) -> list[str]:
    """Take fences away, and forget what is owed for these topics; returns the topics.

    :raises ClusterUnreachable: a fence stands there, and it does not answer
    :raises DrkitError: as :func:`liftable`
    """
    wanted = set(liftable(desk, topics, reason))
    context = _context(desk)
    lift_fences(context, wanted)
    settle(context.state, FenceDebt, wanted)
    observe.event("fence_lifted", level="warning", flow=context.flow.name, topics=sorted(wanted),
                  reason=reason)  # fmt: skip
    return sorted(wanted)


# -- how ---------------------------------------------------------------------------------------------


def _context(desk: FailoverService) -> Context:
    context = desk.beside(journal=_Beside())
    context.state.load()
    return context


def _for(desk: FailoverService, context: Context, topics: Collection[str]) -> Context:
    known = context.known.topics
    names = {t: known[t][0] if t in known else t for t in topics}
    return desk.beside(Scope(names, (), whole_flow=False), _Beside())


def _due(desk: FailoverService, context: Context) -> tuple[FenceDebt | None, PendingLift | None]:
    """What is owed; a run that may be aborted is asked to pay it itself."""
    run = desk.under_way
    if run is not None and run.abortable:
        raise Refused(
            "a failover that is under way owns the fence",
            where=f"run {run.run_id}",
            evidence=f"it is {run.state} at {run.last_step or 'its beginning'}",
            hint="drkit failover --resume fences the old primary if it answers; drkit failover --abort"
            " lifts what stands",
        )
    return context.state.get(FenceDebt), context.state.get(PendingLift)


def _asked(context: Context, topics: list[str]) -> dict[str, str]:
    canary = context.settings.failover.fence.canary
    settings = context.source_settings
    try:
        rights = canary_rights(settings, context.state, canary) if topics else None
        if rights is not None:
            worth_of(settings, canary, topics, rights)
        proof = prove(settings, canary, topics) if topics else Proof({}, (), {})
    except Refused as error:
        return dict.fromkeys(topics, f"nobody knows: {error.what}")
    except DrkitError as error:
        return dict.fromkeys(topics, f"the canary cannot connect: {error.what}")
    out = {at.topic: "no" for at in (*proof.refused, *proof.without_leader)}
    for at, why in sorted(proof.open.items()):
        before = out.get(at.topic, "no")
        told = f"{at.partition} ({why})"
        out[at.topic] = f"yes: partitions {told}" if before == "no" else f"{before}, {told}"
    return out


def _unreachable(context: Context, then: str) -> ClusterUnreachable:
    return ClusterUnreachable(
        "the old primary does not answer",
        where=context.flow.source,
        evidence=context.source_error,
        hint="bring it back, or keep its listeners closed" + then,
    )
