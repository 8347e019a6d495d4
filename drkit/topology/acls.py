"""ACLs as values: what one covers, and whether one overrides another. Pure.

The rules are those of Kafka's StandardAuthorizer: a DENY wins over every ALLOW, and some operations are
allowed along with others (``AclOperation``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

EVERYBODY: Final = "User:*"
ANY_HOST: Final = "*"
ANY_NAME: Final = "*"
"""As the name of a literal pattern: every resource of the type."""


class ResourceKind(StrEnum):
    """Kafka's ``ResourceType``, without token and user. ACLs on a cluster itself do not travel."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
    CLUSTER = "CLUSTER"


class PatternKind(StrEnum):
    """Kafka's ``PatternType`` of an ACL that exists."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class AclOperation(StrEnum):
    """Kafka's ``AclOperation`` on topics, groups and transactional ids."""

    ALL = "ALL"
    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    TWO_PHASE_COMMIT = "TWO_PHASE_COMMIT"


class Permission(StrEnum):
    """Kafka's ``AclPermissionType``."""

    ALLOW = "ALLOW"
    DENY = "DENY"


IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""Operation → operations that imply it (``AclOperation``)."""


class Acl(NamedTuple):
    """One ACL. Principal and host are kept as Kafka has them, wildcards included."""

    resource: ResourceKind
    pattern: PatternKind
    name: str
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    def __str__(self) -> str:
        """The ACL in one line, similar to ``kafka-acls --list``."""
        at = "" if self.host == ANY_HOST else f" from {self.host}"
        return f"{self.permission} {self.principal}{at} {self.operation} on {self.at}"

    @property
    def at(self) -> str:
        """The resources as text. drkit writes a prefix with a star; Kafka has the pattern type."""
        star = "*" if self.pattern is PatternKind.PREFIXED else ""
        return f"{self.resource.lower().replace('_', ' ')} {self.name}{star}"

    @property
    def denies(self) -> bool:
        """Return whether it is a DENY."""
        return self.permission is Permission.DENY

    @property
    def is_wildcard(self) -> bool:
        """Return whether the ACL is on every resource of its type."""
        return self.pattern is PatternKind.LITERAL and self.name == ANY_NAME

    def covers(self, name: str) -> bool:
        """Return whether its pattern matches a resource of its type."""
        if self.pattern is PatternKind.PREFIXED:
            return name.startswith(self.name)
        return self.name in {name, ANY_NAME}


def topic_acl(topic: str, principal: str, operation: AclOperation, permission: Permission) -> Acl:
    """The ACL of a principal on one topic, from any host."""
    return Acl(
        resource=ResourceKind.TOPIC,
        pattern=PatternKind.LITERAL,
        name=topic,
        principal=principal,
        host=ANY_HOST,
        operation=operation,
        permission=permission,
    )


def meet(one: Acl, other: Acl) -> bool:
    """Return whether the patterns of both can match one resource."""
    if one.resource is not other.resource:
        return False
    if one.is_wildcard or other.is_wildcard:
        return True
    if one.pattern is other.pattern is PatternKind.PREFIXED:
        return one.name.startswith(other.name) or other.name.startswith(one.name)
    return one.covers(other.name) if other.pattern is PatternKind.LITERAL else other.covers(one.name)


def overrides(deny: Acl, allow: Acl) -> bool:
    """Return whether a DENY takes away some of what an ALLOW gives."""
    if not meet(deny, allow):
        return False
    same_user = deny.principal == allow.principal or EVERYBODY in {deny.principal, allow.principal}
    same_host = deny.host == allow.host or ANY_HOST in {deny.host, allow.host}
    return same_user and same_host and _same_operation(deny.operation, allow.operation)


def _same_operation(denied: AclOperation, allowed: AclOperation) -> bool:
    if denied is allowed or AclOperation.ALL in {denied, allowed}:
        return True
    return allowed in IMPLIED_BY.get(denied, ())


def gives(allow: Acl, principal: str, operation: AclOperation, pattern: Acl) -> bool:
    """Whether an ALLOW gives this principal the operation on everything that the pattern matches, anywhere.

    :param pattern: any ACL with the pattern
    """
    if allow.denies or allow.resource is not pattern.resource or allow.host != ANY_HOST:
        return False
    whole = allow.is_wildcard or (
        not pattern.is_wildcard
        and allow.covers(pattern.name)
        and (pattern.pattern is PatternKind.LITERAL or allow.pattern is PatternKind.PREFIXED)
    )
    return (
        whole
        and allow.principal in {principal, EVERYBODY}
        and (
            allow.operation in {operation, AclOperation.ALL}
            or allow.operation in IMPLIED_BY.get(operation, ())
        )
    )


def to_json(acls: Iterable[Acl]) -> list[dict[str, Any]]:
    """ACLs for a state record: equal but for their names they share one entry, since `*` becomes many."""
    names: dict[tuple[str, ...], list[str]] = {}
    for acl in sorted(acls):
        names.setdefault(tuple(acl._replace(name="")), []).append(acl.name)
    return [{"acl": list(acl), "names": found} for acl, found in names.items()]


def from_json(entries: Iterable[Mapping[str, Any]]) -> frozenset[Acl]:
    """Read the JSON of :func:`to_json`. Raises ValueError or KeyError for other data."""
    found = set()
    for entry in entries:
        resource, pattern, _, principal, host, operation, permission = entry["acl"]
        for name in entry["names"]:
            found.add(
                Acl(
                    resource=ResourceKind(resource),
                    pattern=PatternKind(pattern),
                    name=name,
                    principal=principal,
                    host=host,
                    operation=AclOperation(operation),
                    permission=Permission(permission),
                )
            )
    return frozenset(found)


class Promotion(NamedTuple):
    """The ACL changes when topics are opened to their producers."""

    grant: frozenset[Acl]
    lift: frozenset[Acl]


@dataclass(frozen=True)
class AclRecord:
    """The part of a plan that is recorded in the flow's state on the target.

    :param made: created by drkit; only these are ever deleted
    :param held: to be granted at a promotion
    :param left_out: DENYs that would refuse drkit, and the ALLOWs that they limit
    :param guard: those of ``made`` that end with a promotion
    """

    made: frozenset[Acl] = frozenset()
    held: frozenset[Acl] = frozenset()
    left_out: frozenset[Acl] = frozenset()
    guard: frozenset[Acl] = frozenset()


def promotion(record: AclRecord, topics: Collection[str] | None = None) -> Promotion:
    """Return the ACLs to grant and to lift when topics of the target are opened to their producers.

    :param topics: only these target topics, so that wider patterns become literal, or None for all
    """
    if topics is None:
        return Promotion(record.held, record.guard)
    grant: set[Acl] = set()
    for acl in record.held:
        if acl.resource is not ResourceKind.TOPIC:
            grant.add(acl)
        else:
            grant |= {acl._replace(pattern=PatternKind.LITERAL, name=t) for t in topics if acl.covers(t)}
    return Promotion(frozenset(grant), frozenset(a for a in record.guard if a.name in topics))
