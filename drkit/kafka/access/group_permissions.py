"""What drkit's principal may do with groups, asked without doing it.

Any broker checks the permission before it looks whether it coordinates the group, so this module finds no
coordinators: that would create the topic of the group offsets on a cluster that has none yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest

from drkit.kafka import codes
from drkit.kafka.raw import RawCluster

_AT_ONCE: Final = 500
_LANES: Final = 10
_NOWHERE: Final = ("drkit-nowhere", -1)
"""No topic has a partition of this number: a commit for it stores nothing."""
_OUTSIDE: Final = -1
_BY_NAME: Final = 9
"""The last version of OffsetCommit that names topics."""


async def may_describe(cluster: RawCluster, groups: Iterable[str]) -> list[str]:
    """Those of the groups that drkit may DESCRIBE: see their members and offsets."""
    names = list(groups)
    found = []
    for at in range(0, len(names), _AT_ONCE):
        some = names[at : at + _AT_ONCE]
        answer = await cluster.send(DescribeGroupsRequest(groups=some, include_authorized_operations=False))
        found += [g.group_id for g in answer.groups if g.error_code != codes.GROUP_AUTHORIZATION_FAILED]
    return found


async def may_commit(cluster: RawCluster, groups: Iterable[str]) -> list[str]:
    """Those of the groups that drkit may READ: commit offsets for them."""

    async def ask(group: str) -> bool:
        topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = topic_of.OffsetCommitRequestPartition(
            partition_index=_NOWHERE[1], committed_offset=0, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=_OUTSIDE,
            member_id="",
            topics=[topic_of(name=_NOWHERE[0], partitions=[partition])],
            max_version=_BY_NAME,
        )
        answer = await cluster.send(request)
        return all(
            p.error_code != codes.GROUP_AUTHORIZATION_FAILED for t in answer.topics for p in t.partitions
        )

    return await _each(cluster, groups, ask)


async def may_delete(cluster: RawCluster, groups: Iterable[str]) -> list[str]:
    """Those of the groups that drkit may DELETE."""

    async def ask(group: str) -> bool:
        answer = await cluster.send(OffsetDeleteRequest(group_id=group, topics=[]))
        return bool(answer.error_code != codes.GROUP_AUTHORIZATION_FAILED)

    return await _each(cluster, groups, ask)


async def _each(
    cluster: RawCluster, groups: Iterable[str], ask: Callable[[str], Awaitable[bool]]
) -> list[str]:
    """Those for which the answer is yes; some are asked at once."""
    names = list(groups)

    async def lane(mine: list[str]) -> list[str]:
        return [group for group in mine if await ask(group)]

    lanes = [names[n::_LANES] for n in range(min(_LANES, len(names)))]
    return [group for found in await cluster.loop.together(lane, lanes) for group in found]
