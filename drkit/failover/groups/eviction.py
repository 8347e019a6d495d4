"""Removes the members of groups, as one effect of a step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.machine import FAILOVER, StepName
from drkit.failover.groups.look import on_target
from drkit.kafka.groups.requests import leave_groups
from drkit.kafka.raw import RawCluster

_SHOWN: Final = 5


def evict_members(
    context: Context,
    step: StepName,
    cluster: RawCluster,
    groups: Iterable[str],
    command: object = FAILOVER.resume,
) -> None:
    """Remove every member of some groups; consumers that still run rejoin.

    :param command: what a person types when they are stopped
    :raises Failed: a member was not removed
    """
    found = context.run(on_target, cluster, list(groups))
    full = {g: t.members for g, t in found.items() if t.members}
    if not full:
        return
    members: dict[str, Any] = {g: list(m) for g, m in full.items()}
    with context.effect(step, f"evict members from {min(full)}", members=members) as outcome:
        failed: dict[str, str] = context.run(leave_groups, cluster, list(full))
        outcome["failed"] = failed
    if failed:
        raise Failed(
            "members_not_removed",
            where=cluster.alias,
            evidence="; ".join(f"{g}: {why}" for g, why in sorted(failed.items())[:_SHOWN]),
            command=command,
        )
