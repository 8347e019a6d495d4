"""Which ACLs of a source a flow's target is to have, and under which names. Pure.

A prefixed ACL counts when it can cover something that the flow carries. It stays prefixed where the naming
policy keeps beginnings, unless the prefix could cover drkit's own topics; `*` stays `*` only where names of
the copies have a beginning of their own. All else becomes one literal ACL for each copied topic: never more
than on the source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
import re
from typing import Final

from drkit.topology.acls import ANY_HOST, ANY_NAME, EVERYBODY, Acl, AclOperation, PatternKind, ResourceKind
from drkit.topology.filters import NameFilter
from drkit.topology.naming import IdentityNaming, Naming, PrefixNaming

OWN_TOPICS: Final = "drkit-"
"""Prefix of drkit's own topics: their records control drkit."""
OWN_TRANSACTIONAL_IDS: Final = "drkit."
"""Prefix of drkit's own transactional ids: no other principal may use them."""
_HEAD: Final = re.compile(r"(?:[\w-]|\\[.\-])*")
_QUANTIFIERS: Final = frozenset("*?+{")
_ENDINGS: Final = ("", "0", "a")


@dataclass(frozen=True)
class AclScope:
    """What a flow carries.

    :param copies: whether the flow copies a topic of this name, there or not
    :param topics: names on the source of what it copies or once copied
    :param include: the expressions that select topics
    """

    naming: Naming
    copies: Callable[[str], bool]
    topics: frozenset[str]
    groups: NameFilter
    include: tuple[str, ...] = ()

    def renamed(self, acl: Acl) -> Iterator[Acl]:
        """The ACLs on the target for one of the source; none if it concerns nothing that the flow carries."""
        if acl.resource is ResourceKind.TOPIC:
            yield from self._topic(acl)
        elif acl.resource is ResourceKind.GROUP:
            if acl.is_wildcard or self._may_be_a_group(acl):
                yield acl
        elif not acl.name.startswith(OWN_TRANSACTIONAL_IDS):
            yield acl

    def carries(self, acl: Acl) -> bool:
        """Whether an ACL of the target is on what the flow carries: one of the source could become it."""
        if acl.resource is ResourceKind.GROUP:
            return acl.is_wildcard or self._may_be_a_group(acl)
        if acl.resource is ResourceKind.TRANSACTIONAL_ID:
            return not acl.name.startswith(OWN_TRANSACTIONAL_IDS)
        if acl.pattern is PatternKind.LITERAL:
            topic = None if acl.is_wildcard else self.naming.upstream(acl.name)
            return topic is not None and self.copies(topic)
        return any(self._pattern(at) == acl for at in self._before(acl))

    def _before(self, acl: Acl) -> Iterator[Acl]:
        """ACLs of the source that concern a topic of the flow and may become this prefix."""
        head = self.naming.downstream("") if isinstance(self.naming, PrefixNaming) else ""
        if acl.name == head:
            yield acl._replace(pattern=PatternKind.LITERAL, name=ANY_NAME)
        elif acl.name.startswith(head):
            found = acl._replace(name=acl.name[len(head) :])
            if any(found.covers(t) for t in self.topics) or self._may_be_a_topic(found):
                yield found

    def _topic(self, acl: Acl) -> Iterator[Acl]:
        if acl.pattern is PatternKind.LITERAL and not acl.is_wildcard:
            if self.copies(acl.name):
                yield acl._replace(name=self.naming.downstream(acl.name))
            return
        covered = sorted(t for t in self.topics if acl.covers(t))
        pattern = self._pattern(acl)
        if pattern is not None and (covered or self._may_be_a_topic(acl)):
            yield pattern
        for topic in covered:
            name = self.naming.downstream(topic)
            if pattern is None or not pattern.covers(name):
                yield acl._replace(pattern=PatternKind.LITERAL, name=name)

    def _pattern(self, acl: Acl) -> Acl | None:
        """The pattern whose names on the target begin as the copies' names do."""
        beginning = "" if acl.is_wildcard else acl.name
        if isinstance(self.naming, PrefixNaming):
            beginning = self.naming.downstream(beginning)
        elif not isinstance(self.naming, IdentityNaming):
            return None  # a user's own policy: its prefixes are unknown
        if not beginning or beginning.startswith(OWN_TOPICS) or OWN_TOPICS.startswith(beginning):
            return None  # it would also cover drkit's own topics
        return acl._replace(pattern=PatternKind.PREFIXED, name=beginning)

    def _may_be_a_topic(self, acl: Acl) -> bool:
        return acl.is_wildcard or any(self.copies(n) for n in _names(acl.name, self.include))

    def _may_be_a_group(self, acl: Acl) -> bool:
        if acl.pattern is PatternKind.LITERAL:
            return self.groups.accepts(acl.name)
        return any(self.groups.accepts(n) for n in _names(acl.name, self.groups.include))


def _names(beginning: str, expressions: Iterable[str]) -> Iterator[str]:
    heads = [beginning, *(h for e in expressions if (h := _head(e)).startswith(beginning))]
    return (head + ending for head in heads for ending in _ENDINGS)


def _head(expression: str) -> str:
    """The literal prefix of a regular expression."""
    found = _HEAD.match(expression)
    head = found[0] if found else ""
    if expression[len(head) : len(head) + 1] in _QUANTIFIERS:
        head = head[:-1]
    return head.replace("\\", "")


ANY_CLIENT: Final = "any client that can connect"
UNKNOWN: Final = (
    "no ACL is on it: open to any client, or closed (set allow_everyone_if_no_acl_found of the cluster)"
)
_WRITES: Final = frozenset({AclOperation.WRITE, AclOperation.ALL})


def writers(
    topic: str, acls: Collection[Acl], own: Collection[str], *, is_open: bool | None
) -> tuple[str, ...]:
    """Return the principals that may write to a topic, each with the ACL that allows it, without drkit's own.

    Super users, and principals with ALTER on the cluster, are not found: ACLs on topics show neither.

    :param is_open: whether a topic without ACLs is open to all clients, or None if unknown
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


def refuses_clients(topic: str, acls: Collection[Acl], own: Collection[str]) -> bool:
    """Return whether DENYs keep every client from writing to a topic, as those of a fence do.

    Without a DENY, clients may be super users, which no ACL on a topic shows.
    """
    of_topic = (a for a in acls if a.resource is ResourceKind.TOPIC and a.covers(topic))
    denied = any(a.denies and a.operation in _WRITES for a in of_topic)
    return denied and not writers(topic, acls, own, is_open=True)


def _shown(acl: Acl) -> str:
    who = f"every client that can log in ({EVERYBODY})" if acl.principal == EVERYBODY else acl.principal
    host = "" if acl.host == ANY_HOST else f" from {acl.host}"
    how = f", by {acl.at}" if acl.is_wildcard or acl.pattern is PatternKind.PREFIXED else ""
    return f"{who}{host}{how}"
