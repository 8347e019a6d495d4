"""The fence by ACL stays as the guard of the passive side: clients may not write there, drkit may."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from drkit.counted import first_of
from drkit.errors import DrkitError, Failed, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.reverse import Reverse, reverse
from drkit.failover.fencing.acls import fence_acls, refusing_own
from drkit.failover.fencing.methods import recorded_acls
from drkit.flow_state.records import FenceAclsRecord, GuardAclsRecord
from drkit.kafka.access.acls import create_acls, delete_acls, is_open, list_acls, own_principals
from drkit.kafka.admin import Cluster
from drkit.topology.acls import Acl, to_json

GUARD: Final = "guard"


def keep_guard(context: Context, back: Reverse, topics: Collection[str], effect: str) -> None:
    """Give drkit back its right to write under the fence, and record the fence as the reverse flow's guard.

    The switchover back lifts it there. Nothing happens where the fence is not one of ACLs.

    :param topics: by their names on the old primary
    :param effect: its name in the journal
    :raises Refused: the fence would refuse drkit itself, whose principal is not known
    :raises DrkitError: the old primary does not answer, or refuses
    """
    recorded = frozenset(a for a in recorded_acls(context.state) if a.name in topics)
    if not recorded:
        return
    settings = context.source_settings
    _, writer = context.settings.task_sides(back.flow)
    existing = list_acls(settings).acls
    own = own_principals(settings, writer)
    known = back.state.get(GuardAclsRecord)
    guard = known.acls if known is not None else frozenset()
    others = existing - recorded - guard
    wanted = fence_acls(
        topics, others, is_open=bool(is_open(Cluster.connect(settings))), own=own, spare_own=True
    )
    if not own or refusing_own(wanted, own):
        raise Refused(
            "the fence of the old primary would refuse drkit itself",
            where=settings.alias,
            evidence="drkit's principal there is not known"
            if not own
            else first_of(str(a) for a in refusing_own(wanted, own)),
            hint=f'set own_principal = "User:…" in [clusters.{settings.alias}]; let writers write by own'
            " principals instead of User:* or drkit's",
        )
    wanted = frozenset(wanted - others)
    with context.effect(StepName.BEGIN, effect, guard=to_json(wanted), fence=to_json(recorded)) as outcome:
        # On record before it differs from the fence, so that the switchover back lifts all that may exist.
        _record(back, guard | recorded | wanted)
        _judge(context, create_acls(settings, sorted(wanted - existing)))
        _judge(context, delete_acls(settings, sorted(recorded - wanted)))
        _record(back, (guard - recorded) | wanted)
        left = recorded_acls(context.state) - recorded
        if left:
            context.state.put(FenceAclsRecord(left))
        else:
            context.state.delete(FenceAclsRecord)
        outcome["guard"] = len(wanted)


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
            "the fence of the old primary could not become its guard",
            where=context.flow.source,
            evidence=first_of(f"{acl}: {error.evidence}" for acl, error in refused.items()),
            hint="grant drkit's principal ALTER on the cluster; then the same command again, with --resume"
            " or --abort",
        )
