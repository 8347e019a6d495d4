"""Lifts fences and guards by their record in the flow's state, and finds fences that someone else has lifted.

A fence is recorded before it is applied, so the record has every fence that may exist, also that of a process
that died while applying it. What a state that began again lacks is in the record on the source.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Final

from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, DrkitError, Failed, raise_refused
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import refused_elsewhere, work_elsewhere
from drkit.failover.fencing.methods import (
    ACL,
    SIZE,
    forget_sizes,
    lift_fence,
    record_acls,
    recorded_acls,
    recorded_sizes,
)
from drkit.failover.fencing.source_record import (
    aborted_runs,
    give_back,
    has_fenced,
    note_lifted,
    recall_fences,
    taken_fences,
)
from drkit.flow_state.pending_fence import settle
from drkit.flow_state.records import FenceAclsRecord, FenceSizesRecord, GuardAclsRecord, PendingLift
from drkit.kafka.access.acls import NoAuthorizer, delete_acls, list_acls, own_principals
from drkit.pair.promotions import promotions_of
from drkit.status.pair.reading import fences_gone
from drkit.topology.acls import EVERYBODY, Acl, AclOperation, PatternKind, ResourceKind


def taken_away(context: Context) -> list[str]:
    """Return the promoted source topics whose fence is on record and not on the source, sorted.

    Not those of a run that was aborted at the source before OPEN: clients write there.

    :raises DrkitError: the source does not answer, or hides its ACLs
    """
    promoted = {topic: role.run_id for topic, role in promotions_of(context.state.records).items()}
    gone = fences_gone(context.source_settings, context.state.records, promoted)
    ended = aborted_runs(context) if gone else frozenset()
    return sorted(t for t in gone if promoted[t] not in ended)


def forget_replaced(context: Context, topics: Collection[str]) -> None:
    """Drop the record of missing ACLs, of topics that have another fence. Raises DrkitError."""
    _, recorded = _fences_of(context, topics)
    there = frozenset[Acl]()
    with suppress(NoAuthorizer):
        there = list_acls(context.source_settings).acls if recorded else there
    record_acls(context.state, recorded_acls(context.state) - (recorded - there))


def hand_over(context: Context, topics: Collection[str]) -> list[str]:
    """Take fences off the record that another flow of the source has on its own; return the other topics.

    A topic has one fence by size or ACL, whichever flows need it: the last of them lifts it.

    :raises Refused: another flow has promoted one of the topics, and has no fence of it on record
    """
    others = work_elsewhere(context, topics)
    taken, state = frozenset(taken_fences(context)), context.state
    shared = others.fences.topics | taken
    if bare := others.moved.keys() - shared:
        elsewhere = {topic: others.moved[topic] for topic in bare}
        raise refused_elsewhere(context.flow.source, elsewhere, "lift_opens_both")
    if not shared:
        return sorted(topics)
    records = [r for r in (state.get(FenceSizesRecord), state.get(FenceAclsRecord)) if r is not None]
    _forget(context, shared)
    fenced = work_elsewhere(context, shared).fences.topics | taken
    if fenced != shared:  # the other flow has handed it over at the same moment
        state.put_all(("", record) for record in records)
        _forget(context, fenced)
    with suppress(DrkitError):  # else the source alone has it on record: drkit fence lift
        give_back(context, {topic: flow for topic, flow in others.moved.items() if topic in fenced})
    return sorted(set(topics) - fenced)


def _forget(context: Context, topics: Collection[str]) -> None:
    forget_sizes(context.state, topics)
    record_acls(context.state, frozenset(a for a in recorded_acls(context.state) if a.name not in topics))


def lift_fences(context: Context, topics: Collection[str]) -> list[str]:
    """Lift the fences of some topics of the source; return the lifted means.

    The call is idempotent. Of a fence that remains, the records remain, too.

    :raises ClusterUnreachable: a fence is on record, and the source does not answer
    :raises DrkitError: the source refuses; ``fence_remains``: a fence is in effect afterwards
    """
    if context.source() is not None:
        recall_fences(context, topics)
    sizes, acls = _fences_of(context, topics)
    if (sizes or acls or has_fenced(context)) and context.source() is None:
        raise not_answering(context, "drkit fence lift")
    remaining = lift_fence(context.source_settings, sizes, acls)
    lifted = set(topics) - remaining
    _forget(context, lifted)
    note_lifted(context, lifted)
    settle(context.state, PendingLift, lifted)
    if remaining:
        raise Failed("fence_remains", where=context.flow.source, evidence=first_of(sorted(remaining)))
    return [name for name, found in ((ACL, acls), (SIZE, sizes)) if found]


def not_answering(context: Context, command: object, evidence: str = "") -> ClusterUnreachable:
    """Return the error of a silent old primary, with the command to repeat and what was asked."""
    seen = evidence or context.source_error
    hint = f"bring it back, or keep its listeners closed, then: {command}"
    return ClusterUnreachable(
        "old_primary_unreachable", where=context.flow.source, evidence=seen, hint=f"{hint} {command}"
    )


def _fences_of(context: Context, topics: Collection[str]) -> tuple[dict[str, str | None], frozenset[Acl]]:
    """Return the recorded sizes and ACLs of some topics."""
    sizes = {t: before for t, before in recorded_sizes(context.state).items() if t in topics}
    return sizes, frozenset(a for a in recorded_acls(context.state) if a.name in topics)


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
    raise_refused("target_guard_not_lifted", context.flow.target, refused)
    record_acls(context.state, recorded_acls(context.state, GuardAclsRecord) - acls, GuardAclsRecord)
    return len(acls)


def _is_of_a_fence(acl: Acl, own: frozenset[str]) -> bool:
    """Return whether a fence may have created it; the record alone is no proof: others may write there."""
    if acl.resource is not ResourceKind.TOPIC or acl.pattern is not PatternKind.LITERAL:
        return False
    if acl.denies:
        return acl.operation is AclOperation.WRITE
    return (acl.principal == EVERYBODY and acl.operation in _READS) or acl.principal in own
