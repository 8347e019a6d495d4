"""Ordered ACL changes for a target whose topics are passive, from the ACLs of its source. Pure.

Only drkit writes to passive topics: ACLs that would let others write are held back and recorded, for a
failover to grant. A DENY that would refuse drkit is left out, with the ALLOWs that it limits on the source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import product
from typing import Any, Final, NamedTuple

from drkit.topology.acl_scope import AclScope
from drkit.topology.acls import (
    ANY_HOST,
    EVERYBODY,
    Acl,
    AclOperation,
    AclRecord,
    PatternKind,
    Permission,
    Promotion,
    ResourceKind,
    gives,
    overrides,
    promotion,
    topic_acl,
)
from drkit.topology.topic_plan import ChangeRow

_LOOKING: Final = frozenset({AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS})
_PASSIVE: Final[Mapping[ResourceKind, frozenset[AclOperation]]] = {
    ResourceKind.TOPIC: _LOOKING,
    ResourceKind.GROUP: _LOOKING,
    # A principal that may write with a transactional id can fence its current producer.
    ResourceKind.TRANSACTIONAL_ID: frozenset({AclOperation.DESCRIBE}),
}
"""Operations allowed to others while the topics are passive."""
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
"""Operations that drkit needs if an ACL closes an open target; they imply DESCRIBE."""
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

    :param own: drkit's principals, or empty if unknown: then every DENY might concern it
    """
    groups = Sorted()
    for acl in acls:
        if acl.denies:
            (groups.left_out if _refuses(acl, own) else groups.given).add(acl)
        elif acl.operation in _PASSIVE[acl.resource]:
            groups.given.add(acl)
        else:
            groups.held.add(acl)
            if acl.operation is AclOperation.ALL:
                groups.given.update(acl._replace(operation=o) for o in _OF_ALL[acl.resource])
    denies = sorted(groups.left_out)
    limited = {a for a in groups.given | groups.held if not a.denies and any(overrides(d, a) for d in denies)}
    groups.given -= limited
    groups.held -= limited
    groups.left_out |= limited
    return groups


def _refuses(deny: Acl, own: frozenset[str]) -> bool:
    """Return whether a DENY concerns drkit. Its host is ignored: drkit's own host is unknown here."""
    if own and deny.principal not in {*own, EVERYBODY}:
        return False
    return deny.operation is AclOperation.ALL or deny.operation in _NEEDED[deny.resource]


def for_own(acl: Acl, own: Iterable[str]) -> Iterator[Acl]:
    """Return the ACLs that drkit needs on the resources of an ACL."""
    for principal, operation in product(own, _OWN[acl.resource]):
        yield acl._replace(
            principal=principal, host=ANY_HOST, operation=operation, permission=Permission.ALLOW
        )


OUTSIDE: Final = "left as it is: only the flow's record has it, and the flow cannot have made it"


@dataclass(frozen=True)
class AclBounds:
    """The ACLs that one flow may grant and delete, whatever its record contains: others may write records.

    :param own: drkit's principals on the target
    """

    scope: AclScope
    own: frozenset[str]

    def may_have_made(self, acl: Acl) -> bool:
        """Return whether drkit can have created it on the passive target."""
        if not self.scope.carries(acl):
            return False
        return self._is_own(acl) or acl in sort_acls([acl], self.own).given

    def may_grant(self, acl: Acl) -> bool:
        """Return whether drkit can have held it back for a promotion."""
        return self.scope.carries(acl) and acl in sort_acls([acl], self.own).held

    def may_be_guard(self, acl: Acl) -> bool:
        """Return whether it can be a guard of a passive topic."""
        if acl.resource is not ResourceKind.TOPIC or acl.pattern is not PatternKind.LITERAL or acl.denies:
            return False
        everybodys = (
            acl.principal == EVERYBODY
            and acl.host == ANY_HOST
            and acl.operation in {AclOperation.READ, AclOperation.DESCRIBE}
        )
        return (everybodys or self._is_own(acl)) and self.scope.carries(acl)

    def _is_own(self, acl: Acl) -> bool:
        return acl in for_own(acl, self.own)


def bounded_promotion(
    record: AclRecord, bounds: AclBounds, topics: Collection[str] | None = None
) -> tuple[Promotion, frozenset[Acl]]:
    """Return the ACLs to grant and lift when topics are opened, and the recorded ACLs outside the bounds.

    :param topics: see :func:`drkit.topology.acls.promotion`
    """
    held, left_held = _split(record.held, bounds.may_grant)
    guard, left_guard = _split(record.guard, bounds.may_be_guard)
    return promotion(AclRecord(held=held, guard=guard), topics), left_held | left_guard


def _split(acls: Iterable[Acl], believed: Callable[[Acl], bool]) -> tuple[frozenset[Acl], frozenset[Acl]]:
    every = frozenset(acls)
    fine = frozenset(a for a in every if believed(a))
    return fine, every - fine


_AS_SOURCE: Final = "as on the source"
_FOR_OWN: Final = "on an open cluster any ACL would refuse drkit too"
_FOR_GUARD: Final = "guard: all clients read the copy, only drkit writes it"
_HELD: Final = "held back while passive, given at a promotion"
LOCKS_OUT: Final = "left out: it would refuse drkit itself"
WAITS: Final = "left out: on the source a DENY limits it that is left out here"
_GONE: Final = "drkit made it, and it is no longer wanted"


class AclStep(IntEnum):
    """The order of changes: all of one step before any of the next.

    At no moment is more allowed than by the ACLs before and after the change.
    """

    CREATE = 0
    REVOKE = 1
    LIFT = 2
    LAST = 3


class AclChange(NamedTuple):
    """One ACL to create or delete."""

    step: AclStep
    acl: Acl
    why: str

    def row(self) -> ChangeRow:
        """The change as text."""
        return _row("create acl" if self.step is AclStep.CREATE else "delete acl", self.acl, self.why)


@dataclass(frozen=True)
class TargetAcls:
    """The ACLs of the target.

    :param own: drkit's principals there; empty: unknown, then every DENY might concern it
    :param is_open: a resource without ACLs is open to all clients; None: unknown
    """

    acls: frozenset[Acl]
    own: frozenset[str]
    is_open: bool | None = False


@dataclass(frozen=True)
class AclPlan:
    """The ordered changes, and what is to be recorded before they are made."""

    changes: tuple[AclChange, ...]
    record: AclRecord
    held: frozenset[Acl] = frozenset()
    """ACLs of the record that a promotion would still give."""
    outside: tuple[Acl, ...] = ()
    """ACLs of the target that the record claims, but that the flow cannot have made."""
    leaks: tuple[Acl, ...] = ()
    """ACLs of others on the target that let other principals write to passive topics."""

    def rows(self) -> Iterator[ChangeRow]:
        """The changes, then what is held back or left out, as text."""
        yield from (change.row() for change in self.changes)
        yield from (_row("hold acl", acl, _HELD) for acl in sorted(self.held))
        for acl in sorted(self.record.left_out):
            yield _row("leave out acl", acl, LOCKS_OUT if acl.denies else WAITS)
        yield from (_row("leave acl", acl, OUTSIDE) for acl in self.outside)


def _row(what: str, acl: Acl, why: str) -> ChangeRow:
    return ChangeRow(
        acl.at, what, f"{acl.permission} {acl.operation}", None, f"{acl.principal} from {acl.host}", why
    )


def plan_acls(
    source: Iterable[Acl],
    target: TargetAcls,
    scope: AclScope,
    record: AclRecord,
    *,
    never_copy: frozenset[Acl] = frozenset(),
    promoted: Collection[str] = (),
    guard: bool = False,
) -> AclPlan:
    """Return the changes that give the target the source's ACLs, as far as passive topics may have them.

    :param record: of the last plan
    :param never_copy: ACLs of the source that are not its own: fences, and what an opposite flow made
    :param promoted: target topics that producers own: an ACL that can cover one stays as it is
    :param guard: on an open target, let only drkit write where there is no ACL
    """
    wanted = sort_acls((t for a in source if a not in never_copy for t in scope.renamed(a)), target.own)
    bounds = AclBounds(scope, target.own)
    believed = frozenset(a for a in record.made & target.acls if bounds.may_have_made(a))
    foreign = target.acls - believed
    own = _own_acls(wanted.every, target, foreign)
    guards = _guards(wanted.every | foreign, target, scope) if guard else frozenset()
    whys = dict.fromkeys(guards, _FOR_GUARD) | dict.fromkeys(own, _FOR_OWN)
    whys |= dict.fromkeys(wanted.given, _AS_SOURCE)

    def is_settled(acl: Acl) -> bool:
        return acl.resource is ResourceKind.TOPIC and any(acl.covers(t) for t in promoted)

    create = {a for a in whys if a not in target.acls and not is_settled(a)}
    delete = {a for a in believed if a not in whys and not is_settled(a)}
    made = (record.made & target.acls) - delete | create
    changes = [AclChange(AclStep.CREATE, a, whys[a]) for a in create]
    changes += [AclChange(_when_deleted(a, target, record), a, _GONE) for a in delete]
    new_record = AclRecord(
        made,
        _kept(wanted.held, record.held, is_settled),
        frozenset(wanted.left_out),
        _kept(guards & made, record.guard & made, is_settled),
    )
    outside = (record.made & target.acls) - believed - whys.keys()
    passive = {scope.naming.downstream(t) for t in scope.topics} - set(promoted)
    # A promotion of some topics gives a wider pattern as one ACL for each of them.
    held = {a for a in new_record.held - target.acls if not is_settled(a) or any(map(a.covers, passive))}
    ordered, leaks = tuple(sorted(changes, key=_order)), _leaks(foreign, target, passive)
    return AclPlan(ordered, new_record, frozenset(held), tuple(sorted(outside)), leaks)


def _kept(new: Iterable[Acl], old: Iterable[Acl], is_settled: Callable[[Acl], bool]) -> frozenset[Acl]:
    return frozenset(a for a in new if not is_settled(a)) | frozenset(a for a in old if is_settled(a))


def _order(change: AclChange) -> tuple[Any, ...]:
    # For changes that need several requests: drkit's own ACLs first, then each DENY before its ALLOW.
    rank = 0 if change.why == _FOR_OWN else 1 if change.acl.denies else 2
    return change.step, rank, change.acl


def _when_deleted(acl: Acl, target: TargetAcls, record: AclRecord) -> AclStep:
    if acl.principal in target.own or acl in record.guard:
        return AclStep.LAST
    return AclStep.LIFT if acl.denies else AclStep.REVOKE


def _own_acls(acls: Iterable[Acl], target: TargetAcls, foreign: Iterable[Acl]) -> frozenset[Acl]:
    """Return the ACLs that drkit needs in addition, unless the target is known to be closed."""
    if not target.own or target.is_open is False:
        return frozenset()
    has = [a for a in foreign if not a.denies and a.principal in {*target.own, EVERYBODY}]
    wanted = {a for acl in acls for a in for_own(acl, target.own)}
    return frozenset(a for a in wanted if not any(gives(h, a.principal, a.operation, a) for h in has))


def _guards(acls: Iterable[Acl], target: TargetAcls, scope: AclScope) -> frozenset[Acl]:
    """Return ACLs for copies without any ACL, on a target where all clients may then write."""
    if not target.own or not target.is_open:
        return frozenset()
    on_topics = [a for a in acls if a.resource is ResourceKind.TOPIC]
    guards: set[Acl] = set()
    for name in map(scope.naming.downstream, scope.topics):
        if not any(a.covers(name) for a in on_topics):
            read = topic_acl(name, EVERYBODY, AclOperation.READ, Permission.ALLOW)
            guards |= {read, read._replace(operation=AclOperation.DESCRIBE), *for_own(read, target.own)}
    return frozenset(guards)


def _leaks(foreign: Iterable[Acl], target: TargetAcls, passive: Iterable[str]) -> tuple[Acl, ...]:
    return tuple(
        sorted(
            acl
            for acl in foreign
            if acl.resource is ResourceKind.TOPIC
            and not acl.denies
            and acl.principal not in target.own
            and acl.operation in {AclOperation.WRITE, AclOperation.ALL}
            and any(map(acl.covers, passive))
        )
    )
