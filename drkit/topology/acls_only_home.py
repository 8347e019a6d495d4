"""What clients may do at home and not where they are now: revoked there, it would be allowed again. Pure.

Two sets of ACLs say the same by different entries (`*` on one side, literal names on the other). So rights
are compared, topic by topic and group by group, not entries.
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
    """What returns."""

    topics: frozenset[str]
    """Names at home, which are those of the active side."""
    groups: frozenset[str]
    own: frozenset[str] = frozenset()
    """drkit's principals: its own rights are none of clients."""
    other_topics: frozenset[str] = frozenset()
    """Topics at home that do not return."""
    other_groups: frozenset[str] = frozenset()
    """Groups at home that do not return."""
    is_open: bool = False
    """Whether on the active side every client may do what no ACL is about."""
    is_whole: bool = True
    """Whether the whole flow returns; else a transactional id may belong to a client of other topics."""

    def others(self, acl: Acl) -> tuple[str, ...]:
        """What an ACL is about and does not return."""
        if _of_ids(acl):
            return () if self.is_whole else tuple(sorted(self.other_topics))
        names = self.other_topics if acl.resource is ResourceKind.TOPIC else self.other_groups
        return tuple(sorted(n for n in names if acl.covers(n)))


class OnlyHome(NamedTuple):
    """An ACL at home that gives, or takes, what the active side does not."""

    acl: Acl
    names: tuple[str, ...]
    """Topics or groups of the scope that it is about; empty: transactional ids."""
    others: tuple[str, ...]
    """Topics or groups out of the scope that it covers, too; of transactional ids: topics of such clients."""

    def __str__(self) -> str:
        """The ACL, and what else it is about."""
        about = "it may serve clients of" if _of_ids(self.acl) else "it is also about"
        more = f" ({about} {', '.join(self.others[:_SHOWN])})" if self.others else ""
        return f"{self.acl}{more}"


def only_home(home: Iterable[Acl], active: Iterable[Acl], scope: HomeScope) -> list[OnlyHome]:
    """The ACLs at home that make a difference there.

    :param home: without drkit's fences and guards
    :param active: those of the side where clients are
    """
    both = _Rights(home), _Rights(active, is_open=scope.is_open)
    found = []
    for acl in sorted(both[0].acls):
        if acl.principal in scope.own:
            continue
        names = tuple(n for n in _names(acl, scope) if _differs(acl, n, *both))
        if names:
            found.append(OnlyHome(acl, () if _of_ids(acl) else names, scope.others(acl)))
    return found


class _Rights:
    """The ACLs of one side, by kind of resource."""

    def __init__(self, acls: Iterable[Acl], *, is_open: bool = False) -> None:
        self.acls, self._is_open = list(acls), is_open
        self._kinds: dict[ResourceKind, list[Acl]] = {}
        for acl in self.acls:
            self._kinds.setdefault(acl.resource, []).append(acl)

    def about(self, acl: Acl, name: str) -> Iterator[Acl]:
        """Those about a resource of the same kind."""
        for other in self._kinds.get(acl.resource, ()):
            if meet(other, acl) if _of_ids(acl) else other.covers(name):
                yield other

    def give(self, acl: Acl, name: str) -> bool:
        """Whether they give all that an ALLOW gives on a resource, as far as they do not deny it."""
        at = acl if _of_ids(acl) else acl._replace(name=name, pattern=PatternKind.LITERAL)
        about = list(self.about(acl, name))
        here = [a._replace(host=ANY_HOST) if a.host == acl.host else a for a in about]
        return any(gives(a, acl.principal, acl.operation, at) for a in here) or (self._is_open and not about)

    def denials(self, acl: Acl, name: str) -> Iterator[Acl]:
        """Those that take some of what an ALLOW gives on a resource."""
        for deny in self.about(acl, name):
            if deny.denies and overrides(_on(acl, deny), acl):
                yield deny

    def deny(self, acl: Acl, name: str) -> bool:
        """Whether they deny all that an ACL is about, on a resource."""
        return any(
            deny.denies
            and deny.principal in {acl.principal, EVERYBODY}
            and deny.host in {acl.host, ANY_HOST}
            and deny.operation in {acl.operation, AclOperation.ALL}
            and (not _of_ids(acl) or deny.is_wildcard or deny.covers(acl.name))
            for deny in self.about(acl, name)
        )


def _differs(acl: Acl, name: str, home: _Rights, active: _Rights) -> bool:
    """Whether an ACL of home gives there what the active side does not, or takes what it gives."""
    if acl.denies:
        is_used = any(not a.denies and overrides(_on(a, acl), a) for a in active.about(acl, name))
        return is_used and not active.deny(acl, name)
    if home.deny(acl._replace(operation=AclOperation.ALL), name):
        return False  # a DENY of the operation alone would leave what it allows along with it
    return not active.give(acl, name) or any(not home.deny(d, name) for d in active.denials(acl, name))


def _on(acl: Acl, other: Acl) -> Acl:
    """Another ACL, on the pattern of this one: that both are about one resource is known."""
    return other._replace(pattern=acl.pattern, name=acl.name)


def _names(acl: Acl, scope: HomeScope) -> list[str]:
    """The resources of the scope that an ACL is about; of transactional ids its own pattern."""
    if _of_ids(acl):
        return [acl.name]
    names = scope.topics if acl.resource is ResourceKind.TOPIC else scope.groups
    return sorted(n for n in names if acl.covers(n))


def _of_ids(acl: Acl) -> bool:
    """Whether it is about transactional ids: which there are is not known, so patterns are compared."""
    return acl.resource is ResourceKind.TRANSACTIONAL_ID
