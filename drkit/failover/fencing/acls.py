"""The ACLs that refuse writes to topics by every principal, and change no other access. Pure.

They follow Kafka's StandardAuthorizer: a DENY wins, then an ALLOW. A topic without ACLs is closed, or on an
open cluster open to all principals. Super users pass every ACL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from drkit.topology.acls import EVERYBODY, Acl, AclOperation, Permission, ResourceKind, topic_acl

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
    """Return the ACLs to create.

    :param existing: the cluster's ACLs, without the fence's own
    :param is_open: whether a topic without ACLs is open to all principals
    :param own: drkit's principals
    :param spare_own: drkit may still write; otherwise it is fenced like every principal
    """
    return frozenset(
        acl
        for topic in topics
        for acl in _of_topic(topic, existing, is_open=is_open, own=own, spare=spare_own)
    )


def refusing_own(fence: Iterable[Acl], own: Collection[str]) -> list[Acl]:
    """Return the ACLs of a fence that refuse drkit itself; those on all principals do too."""
    return sorted(a for a in fence if a.denies and a.principal in {*own, EVERYBODY})


def bare_topics(topics: Iterable[str], existing: Collection[Acl]) -> list[str]:
    """Return the topics without ACLs; the cluster's settings decide who may use them."""
    return [topic for topic in topics if not _on(topic, existing)]


def may_write(
    topic: str, existing: Collection[Acl], principals: Collection[str], *, is_open: bool | None
) -> bool | None:
    """Whether some ACL lets one of these principals write; DENYs, which fences consist of, are ignored.

    :param is_open: whether a topic without ACLs is open to all principals; None: unknown
    :returns: None for a topic without ACLs if `is_open` is unknown
    """
    of_topic = _on(topic, existing)
    if not of_topic:
        return is_open
    who = {*principals, EVERYBODY}
    return any(not a.denies and a.operation in _WRITES and a.principal in who for a in of_topic)


def _of_topic(
    topic: str, existing: Collection[Acl], *, is_open: bool, own: Collection[str], spare: bool
) -> Iterator[Acl]:
    of_topic = _on(topic, existing)
    if not of_topic:
        if is_open:
            # Any ACL closes the topic, so all principals get their read access back.
            yield from (topic_acl(topic, EVERYBODY, o, Permission.ALLOW) for o in _STILL_ALLOWED)
            if spare:
                yield from (topic_acl(topic, p, AclOperation.ALL, Permission.ALLOW) for p in own)
        return
    writers = {a.principal for a in of_topic if not a.denies and a.operation in _WRITES}
    fenced = writers - set(own) if spare else writers | set(own)
    yield from (topic_acl(topic, p, AclOperation.WRITE, Permission.DENY) for p in sorted(fenced))


def _on(topic: str, existing: Collection[Acl]) -> list[Acl]:
    return [a for a in existing if a.resource is ResourceKind.TOPIC and a.covers(topic)]
