"""Lifts the guard of a passive side: the ACLs of an earlier fence that kept clients off since a turn."""

from __future__ import annotations

from typing import Final

from drkit.counted import first_of
from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.flow_state.records import GuardAclsRecord
from drkit.kafka.access.acls import delete_acls, own_principals
from drkit.topology.acls import EVERYBODY, Acl, AclOperation, PatternKind, ResourceKind

_READS: Final = frozenset({AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS})


def guards(context: Context) -> frozenset[Acl]:
    """The ACLs on record that keep clients off the target topics of the scope, of the kinds of a fence."""
    known = context.state.get(GuardAclsRecord)
    if known is None:
        return frozenset()
    topics, own = set(context.scope.topics.values()), own_principals(context.target_settings)
    return frozenset(a for a in known.acls if a.name in topics and _is_of_a_fence(a, own))


def lift_guard(context: Context) -> int:
    """Delete these ACLs and their record; return how many. Repeated, it does nothing more.

    :raises Failed: the target refuses
    :raises DrkitError: it does not answer
    """
    found = guards(context)
    if not found:
        return 0
    refused = delete_acls(context.target_settings, sorted(found))
    if refused:
        raise Failed(
            "target_guard_not_lifted",
            where=context.flow.target,
            evidence=first_of(f"{acl}: {error.evidence}" for acl, error in refused.items()),
        )
    known = context.state.get(GuardAclsRecord)
    left = known.acls - found if known is not None else frozenset()
    if left:
        context.state.put(GuardAclsRecord(left))
    else:
        context.state.delete(GuardAclsRecord)
    return len(found)


def _is_of_a_fence(acl: Acl, own: frozenset[str]) -> bool:
    """Whether a fence can have made it, whatever the record says: others may be able to write there."""
    if acl.resource is not ResourceKind.TOPIC or acl.pattern is not PatternKind.LITERAL:
        return False
    if acl.denies:
        return acl.operation is AclOperation.WRITE
    return (acl.principal == EVERYBODY and acl.operation in _READS) or acl.principal in own
