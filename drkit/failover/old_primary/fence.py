"""The fence of an old primary after its failover: applied at first contact, missing, or turned into a guard.

The guard is the fence by ACL of a passive side: clients may not write there, drkit may.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from drkit.counted import first_of
from drkit.errors import NotAuthorized, Refused, raise_refused
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import Reverse, reverse, reverse_state
from drkit.failover.core.step import StepResult
from drkit.failover.fencing.choosing import Wish
from drkit.failover.fencing.lift import not_answering
from drkit.failover.fencing.methods import (
    ACL,
    SIZE,
    FenceMethod,
    SizeFence,
    fence_acls,
    record_acls,
    recorded_acls,
    recorded_sizes,
    refusing_own,
)
from drkit.failover.fencing.proof import BY_ACL, Proof, prove, unproven
from drkit.failover.fencing.source_record import aborted_runs
from drkit.failover.steps.fence import FenceStep
from drkit.flow_state.records import GuardAclsRecord, PendingFence, PendingLift, ReturnRecord, RoleRecord
from drkit.journal.machine import StepName
from drkit.kafka.access.acls import NoAuthorizer, create_acls, delete_acls, is_open, list_acls, own_principals
from drkit.kafka.access.permissions import CLUSTER_NAME, Need, Resource, missing
from drkit.kafka.admin import Cluster
from drkit.next_command import HOW
from drkit.pair.promotions import promotions_of, still_away
from drkit.status.pair.facts import FENCED_HERE
from drkit.topology.acls import Acl, AclOperation, to_json

_REPLACED: Final = "size replaced"
_NO_AUTHORIZER: Final = "it has no authorizer"
BY_COMMAND: Final = "drkit fence pay"
"""The command that applies a pending fence without a return."""


class LateFence(FenceStep):
    """The step FENCE after the end of a failover. It never calls the site's stop hook for a silent source.

    :param step: under whose name its effects are journalled
    """

    def __init__(self, step: StepName = StepName.FENCE) -> None:
        self.name = step
        self._replaced: list[str] = []

    def run(self, context: Context) -> StepResult:
        self._replaced = []
        done = super().run(context)
        if not self._replaced:
            return done
        note = f"max.message.bytes is as before: an ACL fences {first_of(self._replaced)} now"
        return StepResult(done.evidence, (*done.notes, note))

    def replaces(self, context: Context) -> frozenset[str]:
        """Return the topics that :meth:`run` converts from size fence to ACL fence. Raises Refused."""
        if not (standing := fenced_sizes(context)):
            return frozenset()
        method = self.method(context)
        return frozenset(standing) if method is not None and method.name == ACL else frozenset()

    def by_size(self, context: Context) -> frozenset[str]:
        """Return the topics that :meth:`run` would fence by size. Raises Refused, as :meth:`run` does."""
        topics = context.scope.topics
        method = self.method(context) if topics else None
        if method is None or method.name != SIZE:
            return frozenset()
        return frozenset(method.details(topics)["sizes"])

    def _wish(self, context: Context) -> Wish:
        how = context.settings.failover.fence
        return Wish(how.means, how.canary, self.name is StepName.FENCE, self._command(context))

    def _proven(self, context: Context, method: FenceMethod | None, seconds: float) -> Proof:
        """Prove the fence; lift a fence by size of an earlier time once the ACLs alone refuse.

        It was chosen when drkit could not list the ACLs, and it refuses drkit's records, too.
        """
        proof, sizes = super()._proven(context, method, seconds), fenced_sizes(context)
        if method is None or method.name != ACL or not sizes or not proof.is_whole:
            return proof
        canary, topics = context.settings.failover.fence.canary, context.scope.topics
        if not prove(context.source_settings, canary, topics, seconds, context.clock, BY_ACL).is_whole:
            return proof
        size = SizeFence(context.source_settings, context.state)
        with context.effect(self.name, _REPLACED, sizes=sizes) as outcome:
            size.remove({"sizes": sizes})
            outcome["lifted"] = sorted(sizes)
        proof = super()._proven(context, method, seconds)
        if not proof.is_whole:
            size.apply({"sizes": sizes})
            return proof
        self._replaced = sorted(sizes)
        return proof

    def _command(self, context: Context) -> str:
        return BY_COMMAND if self.name is StepName.FENCE else str(retry_command(context))

    def _silent(self, context: Context) -> StepResult:
        raise not_answering(context, self._command(context))

    def _unproven(self, context: Context, proof: Proof) -> StepResult:
        if proof.is_unknown:
            raise not_answering(context, self._command(context), proof.places)
        raise unproven(proof, context.flow.source, self._command(context))


def fenced_sizes(context: Context) -> dict[str, str | None]:
    """Return the topics of the scope that drkit has fenced by size, with the value before."""
    return {t: v for t, v in recorded_sizes(context.state).items() if t in context.scope.topics}


def nothing_keeps_off(context: Context, by_size: Collection[str]) -> Refused:
    """Return the error of a failback whose fence by size of some topics has to be lifted for the copy."""
    cut = "cut clients off by other means (listener, DNS, network), then say how"
    authorizer = _authorizer(context)
    if authorizer != _NO_AUTHORIZER:
        cut = (
            "let drkit's principal DESCRIBE and ALTER the cluster, and ACLs hold for the canary (means"
            f" and canary in [failover.fence]), then: {retry_command(context)}; or {cut}"
        )
    return Refused(
        "late_fence_refuses_drkit",
        where=f"{context.flow.source}: {first_of(by_size)}",
        evidence=f"{authorizer}; its fence, {SIZE} = 0, has to be lifted for the copy",
        cut=cut,
        command=retry_command(context, RunRequest(clients_cut=HOW)),
    )


def _authorizer(context: Context) -> str:
    try:
        list_acls(context.source_settings)
    except NoAuthorizer:
        return _NO_AUTHORIZER
    except NotAuthorized:
        return "it has an authorizer, whose ACLs drkit may not list"
    return "it has an authorizer, but no ACL was proven to fence it"


def left_open(context: Context) -> list[str]:
    """Return the promoted source topics that take writes though their fence is on no record, sorted.

    Topics that are copied back since are left out, as the reverse flow has to write there, and so are those
    of a run that was aborted at the source before OPEN, where clients write.

    :raises DrkitError: the source does not answer
    """
    state = context.state
    roles = promotions_of(state.records)
    pending = [r for r in (state.get(PendingFence), state.get(PendingLift)) if r is not None]
    accounted = {*recorded_sizes(state), *(a.name for a in recorded_acls(state))}
    accounted |= {topic for record in pending for topic in record.topics}
    copies = {topic: known[0] for topic, known in context.known.topics.items()}
    fenced_by = context.journal_runs().fences
    unrecorded = off_record({t: r for t, r in roles.items() if t not in accounted}, copies, fenced_by)
    if not unrecorded:
        return []
    returned = reverse_state(context).all(ReturnRecord)
    away = still_away(unrecorded, copies, returned)
    if not away or context.source() is None:
        return []
    proof = prove(context.source_settings, context.settings.failover.fence.canary, sorted(away))
    takes = {tp.topic for tp in proof.taking}
    ended = aborted_runs(context) if takes else frozenset()
    return sorted(t for t in takes if away[t].run_id not in ended)


def off_record(
    roles: Mapping[str, RoleRecord], copies: Mapping[str, str], fenced_by: Mapping[str, str]
) -> dict[str, RoleRecord]:
    """Return the topics, of those given, that a failover has promoted and fenced. Pure.

    :param roles: of the topics without a fence on record
    :param copies: source topic → its copy
    :param fenced_by: run → how its step FENCE ended
    """
    return {
        topic: role
        for topic, role in roles.items()
        if role.is_promoted and topic in copies and fenced_by.get(role.run_id, "") in FENCED_HERE
    }


GUARD: Final = "guard"


class _Change(NamedTuple):
    """The ACLs that replace the fence of some topics with their guard."""

    fence: frozenset[Acl]
    """On record in the flow's state."""
    guard: frozenset[Acl]
    """On record in the state of the reverse flow, of other topics, or of an earlier try."""
    wanted: frozenset[Acl]
    created: frozenset[Acl]
    deleted: frozenset[Acl]
    """ACLs of the fence that are not in the guard; they may be gone already."""


def refuse_unguarded(context: Context, back: Reverse, topics: Collection[str]) -> None:
    """Refuse topics whose guard could not be applied, before anything is emptied. Changes nothing.

    :raises Refused: as :func:`keep_guard`, or drkit may not change ACLs
    :raises DrkitError: the old primary does not answer
    """
    change = _change(context, back, topics)
    if change is None or not (change.created or change.deleted):
        return
    alter = Need(Resource.CLUSTER, CLUSTER_NAME, AclOperation.ALTER, "make the fence its guard")
    if missing(context.source_settings, [alter]):
        raise _no_right(context, alter.operation)


def keep_guard(context: Context, back: Reverse, topics: Collection[str], effect: str) -> None:
    """Give drkit back its right to write under the fence, and record the fence as the reverse flow's guard.

    The switchover back lifts it there. Nothing happens where the fence is not one of ACLs.

    :param effect: its name in the journal
    :raises Refused: the fence would refuse drkit itself, whose principal is not known; or it is hidden
    :raises DrkitError: the old primary does not answer, or refuses
    """
    change = _change(context, back, topics)
    if change is None:
        return
    settings, fence, guard = context.source_settings, change.fence, change.wanted
    with context.effect(StepName.BEGIN, effect, guard=to_json(guard), fence=to_json(fence)) as outcome:
        # On record before it differs from the fence, so that the switchover back lifts all that may exist.
        record_acls(back.state, change.guard | fence | guard, GuardAclsRecord)
        raise_refused("guard_failed", settings.alias, create_acls(settings, sorted(change.created)))
        raise_refused("guard_failed", settings.alias, delete_acls(settings, sorted(change.deleted)))
        record_acls(back.state, (change.guard - fence) | guard, GuardAclsRecord)
        record_acls(context.state, recorded_acls(context.state) - fence)
        outcome["guard"] = len(guard)


def _change(context: Context, back: Reverse, topics: Collection[str]) -> _Change | None:
    """Return the change to make, or None if no ACL fences these topics."""
    fence = frozenset(a for a in recorded_acls(context.state) if a.name in topics)
    if not fence:
        return None
    settings = context.source_settings
    _, writer = context.settings.task_sides(back.flow)
    try:
        existing = list_acls(settings).acls
    except NotAuthorized as error:
        raise _no_right(context, AclOperation.DESCRIBE) from error
    own = own_principals(settings, writer)
    known = back.state.get(GuardAclsRecord)
    guard = known.acls if known is not None else frozenset()
    others = existing - fence - guard
    acls = fence_acls(
        topics, others, is_open=bool(is_open(Cluster.connect(settings))), own=own, spare_own=True
    )
    if not own or refusing_own(acls, own):
        raise Refused(
            "fence_refuses_drkit",
            where=settings.alias,
            evidence="drkit's principal there is not known"
            if not own
            else first_of(str(a) for a in refusing_own(acls, own)),
            alias=settings.alias,
        )
    acls = frozenset(acls - others)
    return _Change(fence, guard, acls, acls - existing, fence - acls)


def _no_right(context: Context, operation: AclOperation) -> Refused:
    evidence = f"drkit's principal has no {operation.name} on the cluster"
    return Refused("guard_not_authorized", where=context.flow.source, evidence=evidence)


def fence_again(context: Context, topics: Collection[str]) -> list[str]:
    """Record the guard of topics that do not return as the fence of the flow again; returns these topics.

    A run that dies while the fence becomes the guard leaves both. Repeated, it changes nothing.

    :raises DrkitError: the old primary does not answer, or refuses
    """
    with reverse(context) as back:
        known = recorded_acls(back.state, GuardAclsRecord)
        if not (acls := frozenset(a for a in known if a.name in topics)):
            return []
        # On record twice rather than not at all.
        record_acls(context.state, recorded_acls(context.state) | acls)
        raise_refused("guard_failed", context.flow.source, create_acls(context.source_settings, sorted(acls)))
        record_acls(back.state, known - acls, GuardAclsRecord)
    return sorted({a.name for a in acls})
