"""From the ACLs of a source to the ordered changes on a target whose topics are passive. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from drkit.topology.acl_bounds import OUTSIDE, AclBounds
from drkit.topology.acl_record import AclRecord
from drkit.topology.acl_rules import for_own, sort_acls
from drkit.topology.acl_scope import AclScope
from drkit.topology.acls import (
    EVERYBODY,
    Acl,
    AclOperation,
    Permission,
    ResourceKind,
    gives,
    topic_acl,
)
from drkit.topology.topic_plan import ChangeRow

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
    outside: tuple[Acl, ...] = ()
    """ACLs of the target that the record claims, but that the flow cannot have made."""
    leaks: tuple[Acl, ...] = ()
    """ACLs of others on the target that let other principals write to passive topics."""

    def rows(self) -> Iterator[ChangeRow]:
        """The changes, then what is held back or left out, as text."""
        yield from (change.row() for change in self.changes)
        yield from (_row("hold acl", acl, _HELD) for acl in sorted(self.record.held))
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
    """The changes that give the target what the source has, as far as passive topics may have it.

    :param record: of the last plan
    :param never_copy: ACLs of the source that are not its own: fences, and what an opposite flow made
    :param promoted: target topics that producers own: an ACL that can cover one stays as it is
    :param guard: on an open target, let only drkit write where there is no ACL
    """
    wanted = sort_acls((t for a in source if a not in never_copy for t in scope.renamed(a)), target.own)
    bounds = AclBounds(scope, target.own)
    believed = frozenset(a for a in record.made & target.acls if bounds.may_have_made(a))
    foreign = target.acls - believed
    own = _own(wanted.every, target, foreign)
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
    told = AclRecord(
        made,
        _kept(wanted.held, record.held, is_settled),
        frozenset(wanted.left_out),
        _kept(guards & made, record.guard & made, is_settled),
    )
    outside = (record.made & target.acls) - believed - whys.keys()
    leaks = _leaks(foreign, target, scope, promoted)
    return AclPlan(tuple(sorted(changes, key=_order)), told, tuple(sorted(outside)), leaks)


def _kept(new: Iterable[Acl], old: Iterable[Acl], is_settled: Callable[[Acl], bool]) -> frozenset[Acl]:
    return frozenset(a for a in new if not is_settled(a)) | frozenset(a for a in old if is_settled(a))


def _order(change: AclChange) -> tuple[Any, ...]:
    # If one request cannot hold all: drkit's own ACLs come first, and each DENY before the ALLOW it limits.
    rank = 0 if change.why == _FOR_OWN else 1 if change.acl.denies else 2
    return change.step, rank, change.acl


def _when_deleted(acl: Acl, target: TargetAcls, record: AclRecord) -> AclStep:
    if acl.principal in target.own or acl in record.guard:
        return AclStep.LAST
    return AclStep.LIFT if acl.denies else AclStep.REVOKE


def _own(acls: Iterable[Acl], target: TargetAcls, foreign: Iterable[Acl]) -> frozenset[Acl]:
    """The ACLs that drkit needs beside these, unless the target is known to be closed anyway."""
    if not target.own or target.is_open is False:
        return frozenset()
    has = [a for a in foreign if not a.denies and a.principal in {*target.own, EVERYBODY}]
    wanted = {a for acl in acls for a in for_own(acl, target.own)}
    return frozenset(a for a in wanted if not any(gives(h, a.principal, a.operation, a) for h in has))


def _guards(acls: Iterable[Acl], target: TargetAcls, scope: AclScope) -> frozenset[Acl]:
    """ACLs for copies without any ACL, on a target where this lets all clients write."""
    if not target.own or not target.is_open:
        return frozenset()
    on_topics = [a for a in acls if a.resource is ResourceKind.TOPIC]
    found: set[Acl] = set()
    for name in map(scope.naming.downstream, scope.topics):
        if not any(a.covers(name) for a in on_topics):
            read = topic_acl(name, EVERYBODY, AclOperation.READ, Permission.ALLOW)
            found |= {read, read._replace(operation=AclOperation.DESCRIBE), *for_own(read, target.own)}
    return frozenset(found)


def _leaks(
    foreign: Iterable[Acl], target: TargetAcls, scope: AclScope, promoted: Collection[str]
) -> tuple[Acl, ...]:
    passive = {scope.naming.downstream(t) for t in scope.topics} - set(promoted)
    return tuple(
        sorted(
            acl
            for acl in foreign
            if acl.resource is ResourceKind.TOPIC
            and not acl.denies
            and acl.principal not in target.own
            and acl.operation in {AclOperation.WRITE, AclOperation.ALL}
            and any(acl.covers(t) for t in passive)
        )
    )
