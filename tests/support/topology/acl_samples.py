"""A flow and its ACLs, for tests of the plan."""

from __future__ import annotations

from drkit.topology import IdentityNaming, NameFilter, PrefixNaming
from drkit.topology.acl_scope import AclScope
from drkit.topology.acls import Acl, AclOperation, AclRecord, PatternKind, Permission, ResourceKind

OWN = "User:drkit"
US = frozenset({OWN})
TX = "TRANSACTIONAL_ID"
TOPICS = frozenset({"orders", "order-lines", "heartbeats", "billing"})
NOTHING = AclRecord()


def scope(*, prefix: bool = False) -> AclScope:
    naming = PrefixNaming("primary") if prefix else IdentityNaming("primary")
    chosen = NameFilter(("order.*", "billing", "heartbeats"), (".*-secret",))
    return AclScope(naming, chosen.accepts, TOPICS, NameFilter(("shop-.*", "audit")), chosen.include)


def acl(name: str, operation: str = "READ", principal: str = "User:app", *, kind: str = "TOPIC",
        prefixed: bool = False, deny: bool = False, host: str = "*") -> Acl:  # fmt: skip
    pattern = PatternKind.PREFIXED if prefixed else PatternKind.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    return Acl(ResourceKind(kind), pattern, name, principal, host, AclOperation(operation), permission)
