"""Which ACLs keep everybody from writing to topics, and take nothing else away. Pure.

By the rules of Kafka's StandardAuthorizer: a DENY wins, then an ALLOW; a topic on which no ACL stands is
closed, or on an open cluster open to everybody. Super users pass every ACL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from drkit.topology.acls import ANY_HOST, EVERYBODY, Acl, AclOperation, PatternKind, Permission, ResourceKind

_WRITES: Final = frozenset({AclOperation.WRITE, AclOperation.ALL})
_STILL_ALLOWED: Final = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)


def fence_acls(
    topics: Iterable[str],
    existing: Collection[Acl],
    *,
    is_open: bool,
    own: Collection[str] = (),
    spare_own: bool = False,
) -> frozenset[Acl]:
    """The ACLs to create.

    :param existing: those of the cluster, without the fence's own
    :param is_open: whether a topic without ACLs is open to everybody
    :param own: drkit's principals
    :param spare_own: let drkit write on; otherwise it is fenced like everybody
    """
    return frozenset(
        acl
        for topic in topics
        for acl in _of_topic(topic, existing, is_open=is_open, own=own, spare=spare_own)
    )


def refusing_own(fence: Iterable[Acl], own: Collection[str]) -> list[Acl]:
    """Those of a fence that refuse drkit itself; of everybody is of drkit too."""
    return sorted(a for a in fence if a.denies and a.principal in {*own, EVERYBODY})


def bare_topics(topics: Iterable[str], existing: Collection[Acl]) -> list[str]:
    """Topics on which no ACL stands: who may use them is a matter of the cluster."""
    return [topic for topic in topics if not _on(topic, existing)]


def may_write(
    topic: str, existing: Collection[Acl], principals: Collection[str], *, is_open: bool | None
) -> bool | None:
    """Whether some ACL lets one of these principals write; DENYs, which fences are made of, are not asked.

    :param is_open: whether a topic without ACLs is open to everybody; None: nobody knows, nor do we then
    """
    there = _on(topic, existing)
    if not there:
        return is_open
    who = {*principals, EVERYBODY}
    return any(not a.denies and a.operation in _WRITES and a.principal in who for a in there)


def _of_topic(
    topic: str, existing: Collection[Acl], *, is_open: bool, own: Collection[str], spare: bool
) -> Iterator[Acl]:
    there = _on(topic, existing)
    if not there:
        if is_open:
            # Any ACL closes the topic: reading is given back to everybody.
            yield from (_acl(topic, EVERYBODY, o, Permission.ALLOW) for o in _STILL_ALLOWED)
            if spare:
                yield from (_acl(topic, p, AclOperation.ALL, Permission.ALLOW) for p in own)
        return
    writers = {a.principal for a in there if not a.denies and a.operation in _WRITES}
    fenced = writers - set(own) if spare else writers | set(own)
    yield from (_acl(topic, p, AclOperation.WRITE, Permission.DENY) for p in sorted(fenced))


def _on(topic: str, existing: Collection[Acl]) -> list[Acl]:
    return [a for a in existing if a.resource is ResourceKind.TOPIC and a.covers(topic)]


def _acl(topic: str, principal: str, operation: AclOperation, permission: Permission) -> Acl:
    return Acl(
        resource=ResourceKind.TOPIC,
        pattern=PatternKind.LITERAL,
        name=topic,
        principal=principal,
        host=ANY_HOST,
        operation=operation,
        permission=permission,
    )
