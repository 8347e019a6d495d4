"""Who is in a group now, of consumers or of Connect workers. A raw request: see :mod:`drkit.kafka.admin`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable, Failed, NotAuthorized
from drkit.kafka.raw import EventLoop, RawCluster, RawError

_GROUP: Final = 0
_CALL_MS: Final = 10_000
_PATIENCE: Final = 50
_PAUSE_SECONDS: Final = 0.1
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_PASSES: Final = frozenset({14, 15, 16})
_NOT_AUTHORIZED: Final = 30
_NOT_FOUND: Final = 69


class Member(NamedTuple):
    """A member as its coordinator knows it; one that was killed stays until its session is over."""

    client_id: str
    host: str


def group_members(settings: ClusterSettings, groups: Iterable[str]) -> dict[str, tuple[Member, ...]]:
    """The members of some groups; a group that does not exist has none.

    :raises NotAuthorized: drkit's principal may not describe one of them
    :raises ClusterUnreachable: no answer
    """
    loop = EventLoop()
    cluster = RawCluster(loop, settings, "groups")
    wanted = list(groups)

    async def ask() -> dict[str, tuple[Member, ...]]:
        await cluster.connected()
        return {group: await _members(cluster, group) for group in wanted}

    try:
        found: dict[str, tuple[Member, ...]] = loop.run(ask)
    except RawError as error:
        raise ClusterUnreachable(
            "cannot ask for the members of a group", where=settings.alias, evidence=repr(error)
        ) from error
    finally:
        cluster.close()
        loop.close()
    return found


async def _members(cluster: RawCluster, group: str) -> tuple[Member, ...]:
    code = -1
    for _ in range(_PATIENCE):
        find = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[group])
        coordinator = (await cluster.send(find, timeout_ms=_CALL_MS)).coordinators[0]
        code = coordinator.error_code
        if not code:
            ask = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
            answer = await cluster.send(ask, coordinator.node_id, timeout_ms=_CALL_MS)
            described = answer.groups[0]
            code = described.error_code
            if code in {0, _NOT_FOUND}:
                return tuple(Member(m.client_id, m.client_host.lstrip("/")) for m in described.members)
        if code not in _PASSES:
            break
        await cluster.loop.sleep(_PAUSE_SECONDS)
    raise (NotAuthorized if code == _NOT_AUTHORIZED else Failed)(
        "cannot ask for the members of a group",
        where=f"{cluster.alias}: {group}",
        evidence=f"Kafka error code {code}",
        hint=f"allow drkit's principal DESCRIBE on the group {group}",
    )
