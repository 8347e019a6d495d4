"""What a flow keeps of its ACL plan, and how a failover uses it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from drkit.topology.acls import Acl, PatternKind, ResourceKind


class Promotion(NamedTuple):
    """The ACL changes when topics are opened to their producers."""

    grant: frozenset[Acl]
    lift: frozenset[Acl]


@dataclass(frozen=True)
class AclRecord:
    """What is kept of a plan in the flow's state on the target.

    :param made: created by drkit; only these are ever deleted
    :param held: to be granted at a promotion
    :param left_out: DENYs that would refuse drkit, and the ALLOWs that they limit
    :param guard: those of ``made`` that end with a promotion
    """

    made: frozenset[Acl] = frozenset()
    held: frozenset[Acl] = frozenset()
    left_out: frozenset[Acl] = frozenset()
    guard: frozenset[Acl] = frozenset()


def promotion(record: AclRecord, topics: Collection[str] | None = None) -> Promotion:
    """The ACLs to grant and to lift when topics of the target are opened to their producers.

    :param topics: only these target topics: patterns that could cover others become literal; None: all
    """
    if topics is None:
        return Promotion(record.held, record.guard)
    grant: set[Acl] = set()
    for acl in record.held:
        if acl.resource is not ResourceKind.TOPIC:
            grant.add(acl)
        else:
            grant |= {acl._replace(pattern=PatternKind.LITERAL, name=t) for t in topics if acl.covers(t)}
    return Promotion(frozenset(grant), frozenset(a for a in record.guard if a.name in topics))
