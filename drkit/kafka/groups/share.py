"""Share groups (KIP-932): their members. They have no committed offsets as a consumer group has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka.errors import IncompatibleBrokerVersion

from drkit.kafka.groups.asking import CALL_MS, Answered, Coordinators
from drkit.kafka.groups.member import share_member
from drkit.kafka.groups.messages import ShareGroupDescribeRequest
from drkit.kafka.groups.requests import DESCRIBED, GroupDescription, described
from drkit.kafka.raw import RawCluster

SHARE: Final = "share"
"""Their protocol type in a list of groups."""


async def describe_share_groups(
    cluster: RawCluster, groups: Iterable[str]
) -> dict[str, Answered[GroupDescription]]:
    """State and members; empty where the brokers do not know the request."""

    async def ask(node: int, names: list[str]) -> dict[str, Answered[GroupDescription]]:
        request = ShareGroupDescribeRequest(group_ids=names, include_authorized_operations=False)
        answer = await cluster.send(request, node, timeout_ms=CALL_MS)
        return {g.group_id: described(g, SHARE, share_member) for g in answer.groups}

    try:
        return await Coordinators(cluster).ask(groups, ask, per_request=DESCRIBED)
    except IncompatibleBrokerVersion:
        return {}
