"""Removes members of groups from outside of them: LeaveGroup in their name (KIP-345, KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka.errors import for_code
from kafka.protocol.consumer import LeaveGroupRequest

from drkit.kafka.codes import NONE, UNKNOWN_MEMBER_ID
from drkit.kafka.groups.asking import CALL_MS, Answered, Coordinators
from drkit.kafka.groups.requests import GroupDescription, Groups
from drkit.kafka.raw import RawCluster

_REASON: Final = "removed by drkit: the group is moved to another cluster"
_MIN_VERSION: Final = 3
"""From here on a request names several members, static ones by their instance ids."""


async def leave_groups(cluster: RawCluster, groups: Iterable[str]) -> dict[str, str]:
    """Remove every member; a group without members is left alone.

    :returns: groups of which some member stayed, and why
    """
    names = list(groups)
    described = await Groups(cluster).describe(names)
    unknown = {g: f"Kafka error code {a.error}" for g, a in described.items() if a.value is None}
    full = {g: a.value for g, a in described.items() if a.value is not None and a.value.members}

    async def leave(node: int, some: list[str]) -> dict[str, Answered[None]]:
        answer = await cluster.send(_request(some[0], full[some[0]]), node, timeout_ms=CALL_MS)
        codes = [answer.error_code, *(m.error_code for m in answer.members)]
        return {some[0]: Answered(next((c for c in codes if c not in {NONE, UNKNOWN_MEMBER_ID}), 0))}

    answers = await Coordinators(cluster).ask(full, leave, per_request=1)
    refused = {g: f"{for_code(a.error).__name__} ({a.error})" for g, a in answers.items() if a.error}
    return unknown | refused


def _request(group: str, found: GroupDescription) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=group,
        members=[
            LeaveGroupRequest.MemberIdentity(
                # A static member is named by its instance alone: its member id changes when it restarts.
                member_id="" if m.instance is not None else m.id,
                group_instance_id=m.instance,
                reason=_REASON,
            )
            for m in found.members
        ],
        min_version=_MIN_VERSION,
    )
