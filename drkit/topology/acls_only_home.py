"""Rights that clients have at home and not on the active side: a return would restore revoked ones. Pure.

Two sets of ACLs may grant the same by different entries (`*` on one side, literal names on the other). So
rights are compared, topic by topic and group by group, not entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from drkit.topology.acls import (
    ANY_HOST,
    EVERYBODY,
    Acl,
    AclOperation,
    PatternKind,
    ResourceKind,
    gives,
    meet,
    overrides,
)

_SHOWN: Final = 3


class HomeScope(NamedTuple):
    """The topics and groups that return."""

    topics: frozenset[str]
    """Names at home, which are those of the active side."""
    groups: frozenset[str]
    own: frozenset[str] = frozenset()
    """drkit's principals, whose rights are ignored."""
    other_topics: frozenset[str] = frozenset()
    """Topics at home that do not return."""
    other_groups: frozenset[str] = frozenset()
    """Groups at home that do not return."""
    is_open: bool = False
    """True if resources without ACLs are open to all clients on the active side."""
    is_whole: bool = True
    """True if the whole flow returns; else a transactional id may belong to a client of other topics."""

    def others(self, acl: Acl) -> tuple[str, ...]:
        """Return the resources of an ACL that do not return."""
        if _is_transactional_id(acl):
            return () if self.is_whole else tuple(sorted(self.other_topics))
        names = self.other_topics if acl.resource is ResourceKind.TOPIC else self.other_groups
        return tuple(sorted(n for n in names if acl.covers(n)))


class OnlyHome(NamedTuple):
    """An ACL at home that grants or denies rights that the active side does not."""

    acl: Acl
    names: tuple[str, ...]
    """Topics or groups of the scope that it covers; empty for transactional ids."""
    others: tuple[str, ...]
    """Covered topics or groups outside the scope; for transactional ids, topics of their clients."""

    def __str__(self) -> str:
        """Return the ACL and the other resources that it covers."""
        about = "it may serve clients of" if _is_transactional_id(self.acl) else "it is also about"
        more = f" ({about} {', '.join(self.others[:_SHOWN])})" if self.others else ""
        return f"{self.acl}{more}"


def only_home(home: Iterable[Acl], active: Iterable[Acl], scope: HomeScope) -> list[OnlyHome]:
    """Return the ACLs at home whose rights differ from the active side.

    :param home: without drkit's fences and guards
    :param active: those of the side where clients are
    """
    sides = _Rights(home), _Rights(active, is_open=scope.is_open)
    different = []
    for acl in sorted(sides[0].acls):
        if acl.principal in scope.own:
            continue
        names = tuple(n for n in _names(acl, scope) if _differs(acl, n, *sides))
        if names:
            different.append(OnlyHome(acl, () if _is_transactional_id(acl) else names, scope.others(acl)))
    return different


class _Rights:
    """The ACLs of one side, by kind of resource."""

    def __init__(self, acls: Iterable[Acl], *, is_open: bool = False) -> None:
        self.acls, self._is_open = list(acls), is_open
        self._kinds: dict[ResourceKind, list[Acl]] = {}
        for acl in self.acls:
            self._kinds.setdefault(acl.resource, []).append(acl)

    def about(self, acl: Acl, name: str) -> Iterator[Acl]:
        """Return the ACLs that cover a resource of the same kind."""
        for other in self._kinds.get(acl.resource, ()):
            if meet(other, acl) if _is_transactional_id(acl) else other.covers(name):
                yield other

    def give(self, acl: Acl, name: str) -> bool:
        """Return whether they allow everything that an ALLOW grants on a resource, ignoring denials."""
        on = acl if _is_transactional_id(acl) else acl._replace(name=name, pattern=PatternKind.LITERAL)
        about = list(self.about(acl, name))
        acls = [a._replace(host=ANY_HOST) if a.host == acl.host else a for a in about]
        return any(gives(a, acl.principal, acl.operation, on) for a in acls) or (self._is_open and not about)

    def denials(self, acl: Acl, name: str) -> Iterator[Acl]:
        """Return the DENYs that limit an ALLOW on a resource."""
        for deny in self.about(acl, name):
            if deny.denies and overrides(_with_pattern(acl, deny), acl):
                yield deny

    def deny(self, acl: Acl, name: str) -> bool:
        """Return whether they deny all rights of an ACL on a resource."""
        return any(
            deny.denies
            and deny.principal in {acl.principal, EVERYBODY}
            and deny.host in {acl.host, ANY_HOST}
            and deny.operation in {acl.operation, AclOperation.ALL}
            and (not _is_transactional_id(acl) or deny.is_wildcard or deny.covers(acl.name))
            for deny in self.about(acl, name)
        )


def _differs(acl: Acl, name: str, home: _Rights, active: _Rights) -> bool:
    """Return whether an ACL at home grants rights that the active side lacks, or denies rights it grants."""
    if acl.denies:
        is_used = any(not a.denies and overrides(_with_pattern(a, acl), a) for a in active.about(acl, name))
        return is_used and not active.deny(acl, name)
    if home.deny(acl._replace(operation=AclOperation.ALL), name):
        return False  # a DENY of the operation alone would leave what it allows along with it
    return not active.give(acl, name) or any(not home.deny(d, name) for d in active.denials(acl, name))


def _with_pattern(acl: Acl, other: Acl) -> Acl:
    return other._replace(pattern=acl.pattern, name=acl.name)


def _names(acl: Acl, scope: HomeScope) -> list[str]:
    """Return the resources of the scope that an ACL covers; for transactional ids its own pattern."""
    if _is_transactional_id(acl):
        return [acl.name]
    names = scope.topics if acl.resource is ResourceKind.TOPIC else scope.groups
    return sorted(n for n in names if acl.covers(n))


def _is_transactional_id(acl: Acl) -> bool:
    """Return whether it covers transactional ids, which cannot be listed: patterns are compared."""
    return acl.resource is ResourceKind.TRANSACTIONAL_ID
