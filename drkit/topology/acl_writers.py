"""Who may write to a topic, by the ACLs of its cluster. Pure.

Super users pass every ACL, and a principal that may ALTER the cluster can grant itself any: ACLs on
topics show neither.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from drkit.topology.acls import ANY_HOST, EVERYBODY, Acl, AclOperation, PatternKind, ResourceKind

ANY_CLIENT: Final = "any client that can connect"
UNKNOWN: Final = (
    "no ACL is on it: open to any client, or closed (set allow_everyone_if_no_acl_found of the cluster)"
)
_WRITES: Final = frozenset({AclOperation.WRITE, AclOperation.ALL})


def writers(
    topic: str, acls: Collection[Acl], own: Collection[str], *, is_open: bool | None
) -> tuple[str, ...]:
    """The principals that may write to a topic, each with the ACL that allows it; drkit's own are left out.

    :param is_open: whether a topic without ACLs is open to all clients; None: unknown
    """
    of_topic = [a for a in acls if a.resource is ResourceKind.TOPIC and a.covers(topic)]
    if not of_topic:
        return {True: (ANY_CLIENT,), None: (UNKNOWN,), False: ()}[is_open]
    denies = [a for a in of_topic if a.denies and a.operation in _WRITES and a.host == ANY_HOST]
    denied = {a.principal for a in denies}
    return tuple(
        dict.fromkeys(
            _shown(a)
            for a in sorted(of_topic, key=lambda a: (a.principal, a.name))
            if not a.denies
            and a.operation in _WRITES
            and a.principal not in {*own, *denied}
            and EVERYBODY not in denied
        )
    )


def _shown(acl: Acl) -> str:
    who = f"every client that can log in ({EVERYBODY})" if acl.principal == EVERYBODY else acl.principal
    at = "" if acl.host == ANY_HOST else f" from {acl.host}"
    how = f", by {acl.at}" if acl.is_wildcard or acl.pattern is PatternKind.PREFIXED else ""
    return f"{who}{at}{how}"
