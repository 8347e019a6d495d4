"""Fences outside a run: shows active and pending fences, applies pending ones at first contact, lifts them.

A fence that another party has lifted, or that is missing from its record, is applied again when a person
asks. Between question and answer the state may change: only what was agreed to is done then, and other
pending fences are named. A run that can still be aborted owns its fence. This module then changes nothing:
resume or abort the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from drkit import observe
from drkit.counted import counted, first_of
from drkit.errors import ConfigError, DrkitError, NotAuthorized, Refused
from drkit.failover.core.context import Context, Scope
from drkit.failover.core.reverse import pair_roles, share_promotions, work_elsewhere
from drkit.failover.core.step import StepEffect
from drkit.failover.fencing.choosing import canary_rights, hidden_acls
from drkit.failover.fencing.lift import forget_replaced, hand_over, lift_fences, not_answering, taken_away
from drkit.failover.fencing.methods import ACL, SIZE, recorded_acls, recorded_sizes
from drkit.failover.fencing.proof import WRITABLE, Proof, code_name, prove, worth_of
from drkit.failover.fencing.source_record import lost_on_target, record_standing, source_fences
from drkit.failover.old_primary.fence import BY_COMMAND, LateFence, left_open
from drkit.failover.old_primary.identity import refuse_another
from drkit.failover.runs import refuse_owned
from drkit.failover.service import FailoverService
from drkit.flow_state.pending_fence import settle
from drkit.flow_state.records import PendingFence, PendingLift
from drkit.flow_state.source_fence.entries import FenceRecord
from drkit.journal.journal import NoJournal
from drkit.journal.machine import StepName
from drkit.pair.promotions import promoted_of
from drkit.pair.view import PairRoles, promotions_in
from drkit.status.pair.facts import fenced_topics

TAKEN_AWAY: Final = "taken away"


class TopicFence(NamedTuple):
    """The fence of one topic of the source."""

    topic: str
    fence: str
    """``acl``, ``max.message.bytes``, both, ``owed`` for a pending fence, ``taken away`` for one that is on
    record and not there, or empty if drkit knows of no fence."""
    takes_writes: str
    """The canary's latest result: ``no``, ``yes`` with the partitions, or why it is unknown."""
    promoted: bool


class Fences(NamedTuple):
    """All fences of a flow's source."""

    flow: str
    cluster: str
    topics: tuple[TopicFence, ...]
    pending_fence: PendingFence | None
    lift: PendingLift | None
    """Fences to lift at the first contact with the cluster."""
    unanswered: str
    """The reason why the cluster did not answer, or empty if it did."""

    def to_json(self) -> dict[str, Any]:
        """Return the fences as plain JSON data."""
        pending, lift = (record and record.to_json() for record in (self.pending_fence, self.lift))
        return {
            "flow": self.flow, "cluster": self.cluster, "unanswered": self.unanswered, "owed": pending,
            "lift_pending": lift, "topics": [t._asdict() for t in self.topics],
        }  # fmt: skip


class DueFences(NamedTuple):
    """Topics of the source, by the work that is due for them."""

    pending: frozenset[str] = frozenset()
    lift: frozenset[str] = frozenset()
    taken_away: frozenset[str] = frozenset()
    """Another party has lifted their fence: clients may write there."""
    off_record: frozenset[str] = frozenset()
    """Their fence is not on record any more, and they take writes."""

    @property
    def to_fence(self) -> list[str]:
        """The topics to be fenced, sorted."""
        return sorted(self.pending | self.taken_away | self.off_record)

    def within(self, agreed: DueFences) -> DueFences:
        """Return the agreed work that is still due."""
        return DueFences(*(now & before for now, before in zip(self, agreed, strict=True)))

    def besides(self, agreed: DueFences) -> list[str]:
        """Return the work that is due now and was not agreed to, as sentences."""
        sentences = ("fence of {} is pending", "lift of the fence of {} is pending",
             "fence of {} was lifted outside drkit", "fence of {} is no longer recorded")  # fmt: skip
        since = "since this command has looked: nothing was done about it"
        return [
            f"the {sentence.format(first_of(sorted(now - before)))} {since}"
            for sentence, now, before in zip(sentences, self, agreed, strict=True)
            if now - before
        ]


def canary_answers(context: Context, topics: list[str]) -> dict[str, str]:
    """Return topic → whether it takes writes: ``no``, ``yes`` with the partitions, or why that is unknown."""
    canary = context.settings.failover.fence.canary
    settings = context.source_settings
    try:
        rights = None
        with suppress(NotAuthorized):  # the canary's worth is unknown then; its results are not
            rights = canary_rights(settings, context.state, canary) if topics else None
        if rights is not None:
            worth_of(settings, canary, topics, rights)
        proof = prove(settings, canary, topics) if topics else Proof({}, (), {})
    except Refused as error:
        return dict.fromkeys(topics, f"unknown: {error.what}")
    except DrkitError as error:
        return dict.fromkeys(topics, f"the canary cannot connect: {error.what}")
    out = {tp.topic: "no" for tp in (*proof.refused, *proof.without_leader)}
    for tp, code in sorted(proof.open.items(), key=lambda each: (each[0] in proof.silent, each[0])):
        answer = "unknown" if tp in proof.silent else "yes"
        before = out.get(tp.topic, "no")
        shown = str(tp.partition) if code == code_name(WRITABLE) else f"{tp.partition} ({code})"
        out[tp.topic] = f"{answer}: partitions {shown}" if before == "no" else f"{before}, {shown}"
    return out


def _topics(record: PendingFence | PendingLift | None) -> frozenset[str]:
    return frozenset(record.topics if record is not None else ())


_OWED: Final = "owed"
_BOTH: Final = f"{ACL}, {SIZE}"


class _Unjournalled(NoJournal):
    """Records effects in the log only. The flow's state holds them; no run journals them."""

    @contextmanager
    def effect(self, step: StepName, name: str, details: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        observe.event("fence_changes", step=step.value, effect=name, details=dict(details))
        outcome: dict[str, Any] = {}
        yield outcome


def shown(service: FailoverService) -> Fences:
    """Return all fences with the canary's result per topic. Changes nothing. Raises DrkitError."""
    context = _context(service)
    pending = context.state.get(PendingFence)
    acls, sizes = recorded_acls(context.state), recorded_sizes(context.state)
    owed = _topics(pending)
    promoted = promoted_of(context.state.records) & context.known.topics.keys()
    # A pending fence overrides a recorded one: the recorded fence may have been removed since.
    kinds = dict.fromkeys(promoted, "") | dict.fromkeys(sizes, SIZE)
    kinds |= {name: _BOTH if name in sizes else ACL for name in {a.name for a in acls}}
    kinds |= dict.fromkeys(owed, _OWED)
    for record in _unowned(context):
        kinds |= {topic: SIZE if topic in record.sizes else ACL for topic in record.topics}
    unanswered = "" if context.source() is not None else context.source_error
    if not unanswered:
        with suppress(DrkitError):  # it hides its ACLs: the canary's result is shown
            kinds |= dict.fromkeys(set(taken_away(context)) - owed, TAKEN_AWAY)
    answers = {} if unanswered else canary_answers(context, sorted(kinds))
    rows = (
        TopicFence(t, kind, answers.get(t, unanswered or "not asked"), t in promoted)
        for t, kind in sorted(kinds.items())
    )
    lift = context.state.get(PendingLift)
    return Fences(context.flow.name, context.flow.source, tuple(rows), pending, lift, unanswered)


def planned(service: FailoverService) -> list[StepEffect]:
    """Return what :func:`apply_pending` would do now. Changes nothing. Raises DrkitError: as that does."""
    context = _context(service)
    pending, lift = _pending_work(service, context)
    now = _due_now(context, _roles(context))
    if (pending is not None or lift is not None) and context.source() is None:
        raise not_answering(context, BY_COMMAND)
    effects = []
    if lift is not None:
        what = f"lift the fences of {counted(len(lift.topics), 'topic')}"
        effects.append(StepEffect(what, context.flow.source, lift.why))
    if open_ := sorted(now.off_record):
        why = "its fence is no longer recorded, and it takes writes; asked first, or --yes"
        effects.append(StepEffect(f"close {first_of(open_)} again", context.flow.source, why))
    if topics := now.to_fence:
        effects += LateFence().plan(_for(service, context, topics))
    return effects


def due(service: FailoverService) -> DueFences:
    """Return what :func:`apply_pending` would do now; a silent source is no error. Raises DrkitError."""
    context = _context(service)
    _pending_work(service, context)
    return _due_now(context, _roles(context))


class AppliedFences(NamedTuple):
    """The result of :func:`apply_pending`."""

    evidence: Mapping[str, Any]
    notes: tuple[str, ...]
    is_paid: bool
    """Whether something was done; else the notes name the due work that was not agreed to."""


def apply_pending(service: FailoverService, agreed: DueFences | None = None) -> AppliedFences | None:
    """Apply what was postponed while the old primary was silent; return None when nothing is pending.

    Lifts the fences of aborted failovers. Applies the pending fence, proves it and resolves open
    transactions. The call is idempotent, also when two processes make it at once.

    :param agreed: the work that a person has confirmed, or None for all that is pending. Nothing else is
        done, and other due work is noted. Fences that another party has lifted, or that are not on record,
        are applied again only if confirmed: only a person knows whether they may be
    :raises ClusterUnreachable: the old primary does not answer
    :raises Refused: it still takes writes, or is another cluster; or a failover that can be aborted is under
        way
    :raises DrkitError: the old primary refuses a request
    """
    context = _context(service)
    pending, lift = _pending_work(service, context)
    if context.source() is not None:
        share_promotions(context)
    if (roles := _roles(context)) is not None:
        settle(context.state, PendingFence, roles.away)  # clients write there again, by a later promotion
        pending = context.state.get(PendingFence)
    if agreed is None:
        work, besides = DueFences(_topics(pending), _topics(lift)), list[str]()
    else:
        now = _due_now(context, roles)
        work, besides = now.within(agreed), now.besides(agreed)
    if not any(work):
        return AppliedFences({}, tuple(besides), is_paid=False) if besides else None
    if context.source() is None:
        raise not_answering(context, BY_COMMAND)
    refuse_another(context)
    evidence: Mapping[str, Any] = {}
    notes = [_lift_pending(context, lift, work.lift)] if lift is not None and work.lift else []
    if topics := work.to_fence:
        gone = sorted(work.taken_away)
        applied = LateFence().run(_for(service, context, topics))
        run_id = "" if pending is None else pending.run_id
        observe.event("fence_paid", flow=context.flow.name, run=run_id, topics=topics, taken_away=gone,
                      evidence=list(applied.notes))  # fmt: skip
        with suppress(NotAuthorized):
            forget_replaced(context, gone)
        record_standing(context, topics)
        notes += [f"the fence of {first_of(gone)} was lifted outside drkit: it is up again"] if gone else []
        if open_ := sorted(work.off_record):
            notes.append(f"the fence of {first_of(open_)} was not recorded: it is up again, and recorded")
        evidence, notes = applied.evidence, [*notes, *applied.notes]
    return AppliedFences(evidence, (*notes, *besides), is_paid=True)


def _roles(context: Context) -> PairRoles | None:
    return None if context.source() is None else pair_roles(context)


def _due_now(context: Context, roles: PairRoles | None) -> DueFences:
    """Return the work due on request of a person; only pending work without roles."""
    pending, lift = context.state.get(PendingFence), context.state.get(PendingLift)
    gone, open_ = _gone(context, pending, lift), list[str]()
    if roles is not None:
        try:
            open_ = left_open(context)
        except NotAuthorized:
            if pending is None and lift is None:  # pending work is done all the same
                raise
        gone, open_ = sorted(roles.opened & {*gone}), sorted(roles.opened & {*open_})
    return DueFences(_topics(pending), _topics(lift), frozenset(gone), frozenset(open_))


def _gone(context: Context, *pending: PendingFence | PendingLift | None) -> list[str]:
    """Return the promoted topics whose fence another party has lifted; none if the source is silent.

    The ACLs may be hidden: pending work is done all the same.

    :raises Refused: the source is another cluster; or the ACLs are hidden, and nothing is pending
    """
    if context.source() is None:
        return []
    refuse_another(context)
    try:
        return taken_away(context)
    except NotAuthorized:
        if any(pending):
            return []
        raise hidden_acls(context.source_settings, BY_COMMAND) from None


def _lift_pending(context: Context, lift: PendingLift, agreed: Collection[str]) -> str:
    """Lift the pending fences, except those of topics that were promoted since; return a note."""
    topics = hand_over(context, sorted(set(agreed) - promoted_of(context.state.records)))
    lift_fences(context, topics)
    settle(context.state, PendingLift, agreed)
    observe.event("fence_lifted", flow=context.flow.name, topics=topics, reason=lift.in_words)
    return f"the fences of {counted(len(topics), 'topic')} were lifted: run {lift.run_id} was rolled back"


def liftable(service: FailoverService, topics: Collection[str], reason: str) -> list[str]:
    """Return the topics whose active or pending fences :func:`lift` would remove.

    :param topics: of the source, or empty for all
    :param reason: why fences of topics that the new primary owns may be lifted
    :raises ConfigError: a topic has no fence
    :raises Refused: both clusters would take writes, and there is no reason; or a failover is under way
    """
    context = _context(service)
    pending, _ = _pending_work(service, context)
    alone = {topic for record in _unowned(context) for topic in record.topics}
    known = fenced_topics(context.state.records) | alone | _topics(pending)
    if unknown := sorted(set(topics) - known):
        evidence = f"it knows of {len(known)} fenced topics"
        where = f"--topic, flow {context.flow.name}"
        raise ConfigError("no_fence_of_drkit", where=where, evidence=evidence, topics=unknown[0])
    wanted, run = sorted(topics or known), service.under_way
    opening = run.scope["topics"].keys() if run is not None else ()  # its roles may be missing yet
    moved = work_elsewhere(context, wanted).moved.keys()
    promoted = promoted_of(context.state.records).union(opening, moved, promotions_in(source_fences(context)))
    both = [t for t in wanted if t in promoted] or sorted(alone.intersection(wanted))
    if both and not reason:
        whose = f"{context.flow.target} has lost its records" if alone.issuperset(both) else "promoted"
        raise Refused("lift_opens_both", where=context.flow.source, evidence=f"{whose}: {first_of(both)}")
    return wanted


def _unowned(context: Context) -> list[FenceRecord]:
    fenced, runs = fenced_topics(context.state.records), context.journal_runs().fences
    lost = {role.run_id for role in lost_on_target(context).values()}
    return source_fences(context).unowned(fenced, runs, lost)


def lift(service: FailoverService, topics: Collection[str], reason: str) -> list[str]:
    """Lift active fences and drop pending ones for these topics; return the topics.

    :raises ClusterUnreachable: the cluster has an active fence and does not answer
    :raises Refused: it is another cluster than the one that was copied
    :raises DrkitError: as :func:`liftable`
    """
    wanted = set(liftable(service, topics, reason))
    context = _context(service)
    if context.source() is not None:
        refuse_another(context)
    lift_fences(context, wanted)
    settle(context.state, PendingFence, wanted)
    observe.event("fence_lifted", level="warning", flow=context.flow.name, topics=sorted(wanted),
                  reason=reason)  # fmt: skip
    return sorted(wanted)


def _context(service: FailoverService) -> Context:
    service.read_again()  # a run may have begun while a person was asked
    context = service.context_outside_run(journal=_Unjournalled())
    context.state.load_existing(context.target_admin())
    service.refuse_younger()
    return context


def _for(service: FailoverService, context: Context, topics: Collection[str]) -> Context:
    known = context.known.topics
    names = {t: known[t][0] if t in known else t for t in topics}
    return service.context_outside_run(Scope(names, (), whole_flow=False), _Unjournalled())


def _pending_work(
    service: FailoverService, context: Context
) -> tuple[PendingFence | None, PendingLift | None]:
    refuse_owned(service.under_way, context.flow.name)
    return context.state.get(PendingFence), context.state.get(PendingLift)
