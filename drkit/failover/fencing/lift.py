"""Lifts fences and guards by their record in the flow's state, and finds fences that someone else has lifted.

A fence is recorded before it is applied, so the record has every fence that may exist, also that of a process
that died while applying it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, Failed
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import moved_elsewhere, refused_elsewhere
from drkit.failover.fencing.methods import (
    ACL,
    SIZE,
    AclFence,
    by_name,
    put_or_delete,
    recorded_acls,
    recorded_sizes,
)
from drkit.failover.fencing.source_record import aborted_runs, note_lifted
from drkit.flow_state.pending_fence import settle
from drkit.flow_state.records import GuardAclsRecord, PendingLift
from drkit.kafka.access.acls import NoAuthorizer, delete_acls, list_acls, own_principals
from drkit.pair.promotions import promotions_of
from drkit.status.pair.facts import fenced_topics
from drkit.status.pair.reading import fences_gone
from drkit.topology.acls import EVERYBODY, Acl, AclOperation, PatternKind, ResourceKind, to_json


def fenced(context: Context, topics: Collection[str]) -> list[str]:
    """Return the given source topics that have a fence on record, sorted."""
    return sorted(fenced_topics(context.state.records) & set(topics))


def taken_away(context: Context) -> list[str]:
    """Return the promoted source topics whose fence is on record and not on the source, sorted.

    Not those of a run that was aborted at the source: that abort has lifted them, and clients write there.

    :raises DrkitError: the source does not answer, or hides its ACLs
    """
    promoted = {topic: role.run_id for topic, role in promotions_of(context.state.records).items()}
    gone = fences_gone(context.source_settings, context.state.records, promoted)
    ended = aborted_runs(context) if gone else frozenset()
    return sorted(t for t in gone if promoted[t] not in ended)


def forget_replaced(context: Context, topics: Collection[str]) -> None:
    """Drop the record of missing ACLs, of topics that have another fence. Raises DrkitError."""
    recorded = recorded_acls(context.state)
    if not any(a.name in topics for a in recorded):
        return
    try:
        there = list_acls(context.source_settings).acls
    except NoAuthorizer:
        there = frozenset()
    AclFence(context.source_settings, context.state, spare_own=False).forget(
        frozenset(a for a in recorded - there if a.name in topics)
    )


def refuse_elsewhere(context: Context, topics: Collection[str]) -> None:
    """Refuse to lift the fence of topics that clients write elsewhere, by another flow of the source."""
    if elsewhere := moved_elsewhere(context, topics):
        raise refused_elsewhere(context.flow.source, elsewhere, "lift_opens_both")


def lift_fences(context: Context, topics: Collection[str]) -> list[str]:
    """Lift the fences of some topics of the source; return the lifted means.

    The call is idempotent.

    :raises ClusterUnreachable: a fence is on record, and the source does not answer
    :raises DrkitError: the source refuses
    """
    acls, sizes = recorded_acls(context.state), recorded_sizes(context.state)
    details: dict[str, dict[str, Any]] = {
        ACL: {"acls": to_json(frozenset(a for a in acls if a.name in topics))},
        SIZE: {"sizes": {t: before for t, before in sizes.items() if t in topics}},
    }
    lifted = []
    for name, found in details.items():
        method = by_name(name, context.source_settings, context.state, spare_own=False)
        if method is None or not any(found.values()):
            continue
        if context.source() is None:
            raise ClusterUnreachable(
                "old_primary_unreachable",
                where=context.flow.source,
                evidence=context.source_error,
                hint="bring it back, or keep its listeners closed, then: drkit fence lift",
            )
        method.remove(found)
        lifted.append(name)
    note_lifted(context, topics)
    settle(context.state, PendingLift, topics)
    return lifted


_READS: Final = frozenset({AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS})


def guards(context: Context) -> frozenset[Acl]:
    """Return the recorded ACLs, of the kinds of a fence, that keep clients off the scope's target topics."""
    acls = recorded_acls(context.state, GuardAclsRecord)
    topics, own = set(context.scope.topics.values()), own_principals(context.target_settings)
    return frozenset(a for a in acls if a.name in topics and _is_of_a_fence(a, own))


def lift_guard(context: Context) -> int:
    """Delete these ACLs and their record; return their number; repeatable. Raises Failed or DrkitError."""
    acls = guards(context)
    if not acls:
        return 0
    refused = delete_acls(context.target_settings, sorted(acls))
    if refused:
        evidence = first_of(f"{acl}: {error.evidence}" for acl, error in refused.items())
        raise Failed("target_guard_not_lifted", where=context.flow.target, evidence=evidence)
    remaining = recorded_acls(context.state, GuardAclsRecord) - acls
    put_or_delete(context.state, GuardAclsRecord(remaining), needed=bool(remaining))
    return len(acls)


def _is_of_a_fence(acl: Acl, own: frozenset[str]) -> bool:
    """Return whether a fence may have created it; the record alone is no proof: others may write there."""
    if acl.resource is not ResourceKind.TOPIC or acl.pattern is not PatternKind.LITERAL:
        return False
    if acl.denies:
        return acl.operation is AclOperation.WRITE
    return (acl.principal == EVERYBODY and acl.operation in _READS) or acl.principal in own
