"""Consumers that never left the old primary: they would read there what comes back, and commit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from drkit.checkpoints.other_groups import is_consumer
from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.core.again import again
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.reverse import reverse_flow
from drkit.failover.groups.eviction import evict_members
from drkit.kafka.groups.requests import Groups, failure
from drkit.kafka.raw import RawCluster

_IDLE: Final = frozenset({"", "Empty", "Dead"})


def refuse_readers(context: Context, source: RawCluster, topics: Collection[str], *, evict: bool) -> None:
    """Refuse members of groups that have read some topics of the old primary.

    :param topics: by their names there
    :param evict: remove them first; those that come back are refused
    :raises Refused: a group has members
    :raises DrkitError: the old primary does not tell, or does not remove them
    """
    members = context.run(_members, context, source, topics)
    if members and evict:
        evict_members(context, StepName.CONTACT, source, members)
        members = context.run(_members, context, source, topics)
    if members:
        raise Refused(
            f"{counted(len(members), 'group', 'has')} members on the old primary: they would read there"
            " what comes back",
            where=context.flow.source,
            evidence=first_of(f"{g}: {m}" for g, m in sorted(members.items())),
            hint=f"stop or repoint these consumers, then: {again(context)}; members that have ended leave"
            " within session.timeout.ms (45 s by default); those that are not reached by anybody:"
            f" {again(context, '--evict-readers')}",
        )


async def _members(context: Context, source: RawCluster, topics: Collection[str]) -> dict[str, str]:
    """Groups with members that have read some topics of the old primary."""
    asked = Groups(source)
    accepts = reverse_flow(context).group_filter.accepts
    names = sorted(g for g, x in (await asked.listed()).items() if is_consumer(x) and accepts(g))
    found: dict[str, Any] = {}
    committed = await asked.committed(names)
    for group, answered in committed.items():
        if answered.value is None:
            raise failure(answered.error, f"read the offsets of the group {group}", source.alias)
    mine = [g for g in names if any(at.topic in topics for at in committed[g].value or ())]
    for group, answer in (await asked.describe(mine)).items():
        if answer.value is None:
            raise failure(answer.error, f"ask about the group {group}", source.alias)
        if answer.value.state not in _IDLE:
            found[group] = ", ".join(f"{m.client or m.id} on {m.host}" for m in answer.value.members)
    return found
