"""The fence by ACL stays as the guard of the passive side: clients may not write there, drkit may."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from drkit.counted import first_of
from drkit.errors import DrkitError, Failed, NotAuthorized, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.reverse import Reverse, reverse
from drkit.failover.fencing.acls import fence_acls, refusing_own
from drkit.failover.fencing.methods import recorded_acls
from drkit.flow_state.records import FenceAclsRecord, GuardAclsRecord
from drkit.kafka.access.acls import create_acls, delete_acls, is_open, list_acls, own_principals
from drkit.kafka.access.permissions import CLUSTER_NAME, Need, Resource, missing
from drkit.kafka.admin import Cluster
from drkit.topology.acls import Acl, AclOperation, to_json

GUARD: Final = "guard"


class _Change(NamedTuple):
    """What turns the fence of some topics into their guard."""

    fence: frozenset[Acl]
    """On record in the flow's state."""
    guard: frozenset[Acl]
    """On record in that of the reverse flow, of other topics, or of a try before."""
    wanted: frozenset[Acl]
    created: frozenset[Acl]
    deleted: frozenset[Acl]
    """The fence's ACLs that the guard has not; they may be gone already."""


def refuse_unguarded(context: Context, back: Reverse, topics: Collection[str]) -> None:
    """Refuse topics whose guard could not be put up. Looked at before anything is emptied; changes nothing.

    :param topics: by their names on the old primary
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

    :param topics: by their names on the old primary
    :param effect: its name in the journal
    :raises Refused: the fence would refuse drkit itself, whose principal is not known; or it is hidden
    :raises DrkitError: the old primary does not answer, or refuses
    """
    change = _change(context, back, topics)
    if change is None:
        return
    settings, fence, wanted = context.source_settings, change.fence, change.wanted
    with context.effect(StepName.BEGIN, effect, guard=to_json(wanted), fence=to_json(fence)) as outcome:
        # On record before it differs from the fence, so that the switchover back lifts all that may exist.
        _record(back, change.guard | fence | wanted)
        _judge(context, create_acls(settings, sorted(change.created)))
        _judge(context, delete_acls(settings, sorted(change.deleted)))
        _record(back, (change.guard - fence) | wanted)
        left = recorded_acls(context.state) - fence
        if left:
            context.state.put(FenceAclsRecord(left))
        else:
            context.state.delete(FenceAclsRecord)
        outcome["guard"] = len(wanted)


def _change(context: Context, back: Reverse, topics: Collection[str]) -> _Change | None:
    """What is to be changed; None: no ACL fences these topics.

    :raises Refused: as :func:`keep_guard`
    """
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
    wanted = fence_acls(
        topics, others, is_open=bool(is_open(Cluster.connect(settings))), own=own, spare_own=True
    )
    if not own or refusing_own(wanted, own):
        raise Refused(
            "fence_refuses_drkit",
            where=settings.alias,
            evidence="drkit's principal there is not known"
            if not own
            else first_of(str(a) for a in refusing_own(wanted, own)),
            alias=settings.alias,
        )
    wanted = frozenset(wanted - others)
    return _Change(fence, guard, wanted, wanted - existing, fence - wanted)


def _no_right(context: Context, operation: AclOperation) -> Refused:
    return Refused(
        "guard_not_authorized",
        where=context.flow.source,
        evidence=f"drkit's principal has no {operation.name} on the cluster",
    )


def fence_again(context: Context, topics: Collection[str]) -> list[str]:
    """Record the guard of topics that do not return as the fence of the flow again; returns these topics.

    A run that dies while the fence becomes the guard leaves both. Repeated, it changes nothing.

    :param topics: by their names on the old primary
    :raises DrkitError: the old primary does not answer, or refuses
    """
    with reverse(context) as back:
        known = back.state.get(GuardAclsRecord)
        mine = frozenset(a for a in known.acls if a.name in topics) if known is not None else frozenset()
        if known is None or not mine:
            return []
        # On record twice rather than not at all.
        context.state.put(FenceAclsRecord(recorded_acls(context.state) | mine))
        _judge(context, create_acls(context.source_settings, sorted(mine)))
        _record(back, known.acls - mine)
    return sorted({a.name for a in mine})


def _record(back: Reverse, acls: frozenset[Acl]) -> None:
    known = back.state.get(GuardAclsRecord)
    if known is None or known.acls != acls:
        back.state.put(GuardAclsRecord(acls))


def _judge(context: Context, refused: dict[Acl, DrkitError]) -> None:
    if refused:
        raise Failed(
            "guard_failed",
            where=context.flow.source,
            evidence=first_of(f"{acl}: {error.evidence}" for acl, error in refused.items()),
        )
