"""What a flow may grant and delete, whatever its record says: others may be able to write to that topic.

A recorded ACL is trusted if the flow could have made it: on resources that its filters choose, and of a
kind that drkit makes. Other recorded ACLs are left as they are, by name. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from drkit.topology.acl_record import AclRecord, Promotion, promotion
from drkit.topology.acl_rules import for_own, sort_acls
from drkit.topology.acl_scope import AclScope
from drkit.topology.acls import ANY_HOST, EVERYBODY, Acl, AclOperation, PatternKind, ResourceKind

OUTSIDE: Final = "left as it is: only the flow's record has it, and the flow cannot have made it"


@dataclass(frozen=True)
class AclBounds:
    """The limits of one flow.

    :param own: drkit's principals on the target
    """

    scope: AclScope
    own: frozenset[str]

    def may_have_made(self, acl: Acl) -> bool:
        """Whether drkit can have created it on the passive target."""
        if not self.scope.carries(acl):
            return False
        return self._is_own(acl) or acl in sort_acls([acl], self.own).given

    def may_grant(self, acl: Acl) -> bool:
        """Whether drkit can have held it back for a promotion."""
        return self.scope.carries(acl) and acl in sort_acls([acl], self.own).held

    def may_be_guard(self, acl: Acl) -> bool:
        """Whether it can be a guard of a passive topic."""
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
    """What to grant and lift when topics are opened, and what of the record is neither granted nor lifted.

    :param topics: see :func:`drkit.topology.acl_record.promotion`
    """
    held, left_held = _parted(record.held, bounds.may_grant)
    guard, left_guard = _parted(record.guard, bounds.may_be_guard)
    return promotion(AclRecord(held=held, guard=guard), topics), left_held | left_guard


def _parted(acls: Iterable[Acl], believed: Callable[[Acl], bool]) -> tuple[frozenset[Acl], frozenset[Acl]]:
    every = frozenset(acls)
    fine = frozenset(a for a in every if believed(a))
    return fine, every - fine
