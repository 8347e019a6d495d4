"""Who may do what on a passive target: each ACL is given, held back, or left out. Pure.

While a topic is passive only drkit writes to it: ACLs that would let others write are held back and recorded,
so that a failover can grant them when the source is gone. A DENY that would refuse drkit itself is left out
by name, and with it every ALLOW that it limits on the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from drkit.topology.acls import ANY_HOST, EVERYBODY, Acl, AclOperation, Permission, ResourceKind, overrides

_LOOKING: Final = frozenset({AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS})
_PASSIVE: Final[Mapping[ResourceKind, frozenset[AclOperation]]] = {
    ResourceKind.TOPIC: _LOOKING,
    ResourceKind.GROUP: _LOOKING,
    # A principal that may write with a transactional id can fence its current producer.
    ResourceKind.TRANSACTIONAL_ID: frozenset({AclOperation.DESCRIBE}),
}
"""What others may do while the topics are passive."""
_OF_ALL: Final[Mapping[ResourceKind, tuple[AclOperation, ...]]] = {
    ResourceKind.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS),
    ResourceKind.GROUP: (AclOperation.READ,),
    ResourceKind.TRANSACTIONAL_ID: (AclOperation.DESCRIBE,),
}
"""The operations of ALL that are granted now."""
_OWN: Final[Mapping[ResourceKind, tuple[AclOperation, ...]]] = {
    ResourceKind.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceKind.GROUP: (AclOperation.READ,),
    ResourceKind.TRANSACTIONAL_ID: (AclOperation.WRITE,),
}
"""What drkit itself has to be allowed where an ACL closes an open target; DESCRIBE comes along."""
_NEEDED: Final[Mapping[ResourceKind, frozenset[AclOperation]]] = {
    ResourceKind.TOPIC: frozenset({
        *_OWN[ResourceKind.TOPIC], AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.DELETE
    }),
    ResourceKind.GROUP: frozenset({AclOperation.READ, AclOperation.DESCRIBE}),
    ResourceKind.TRANSACTIONAL_ID: frozenset({AclOperation.WRITE, AclOperation.DESCRIBE}),
}  # fmt: skip
"""Operations that no DENY may refuse drkit; DELETE follows a topic that is deleted at the source."""


@dataclass
class Sorted:
    """The source's ACLs under the target's names."""

    given: set[Acl] = field(default_factory=set)
    held: set[Acl] = field(default_factory=set)
    left_out: set[Acl] = field(default_factory=set)

    @property
    def every(self) -> set[Acl]:
        """All ACLs."""
        return self.given | self.held | self.left_out


def sort_acls(acls: Iterable[Acl], own: frozenset[str]) -> Sorted:
    """Sort the source's ACLs into given, held back and left out.

    :param own: drkit's principals; empty: unknown, then every DENY might concern it
    """
    found = Sorted()
    for acl in acls:
        if acl.denies:
            (found.left_out if _refuses(acl, own) else found.given).add(acl)
        elif acl.operation in _PASSIVE[acl.resource]:
            found.given.add(acl)
        else:
            found.held.add(acl)
            if acl.operation is AclOperation.ALL:
                found.given.update(acl._replace(operation=o) for o in _OF_ALL[acl.resource])
    denies = sorted(found.left_out)
    limited = {a for a in found.given | found.held if not a.denies and any(overrides(d, a) for d in denies)}
    found.given -= limited
    found.held -= limited
    found.left_out |= limited
    return found


def _refuses(deny: Acl, own: frozenset[str]) -> bool:
    """Whether a DENY concerns drkit. Its host is ignored: drkit's own host is unknown here."""
    if own and deny.principal not in {*own, EVERYBODY}:
        return False
    return deny.operation is AclOperation.ALL or deny.operation in _NEEDED[deny.resource]


def for_own(at: Acl, own: Iterable[str]) -> Iterator[Acl]:
    """The ACLs that drkit needs on the resources of an ACL."""
    for principal, operation in product(own, _OWN[at.resource]):
        yield at._replace(
            principal=principal, host=ANY_HOST, operation=operation, permission=Permission.ALLOW
        )
