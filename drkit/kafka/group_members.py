"""Who is in a group now, of consumers or of Connect workers, asked once from ordinary code."""

from __future__ import annotations

from collections.abc import Iterable

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable
from drkit.kafka.group_asking import Answered
from drkit.kafka.groups import Described, Groups, Member, failure
from drkit.kafka.raw import EventLoop, RawCluster, RawError


def group_members(settings: ClusterSettings, groups: Iterable[str]) -> dict[str, tuple[Member, ...]]:
    """The members of some groups; a group that does not exist has none.

    :raises NotAuthorized: drkit's principal may not describe one of them
    :raises ClusterUnreachable: no answer
    """
    loop = EventLoop()
    cluster = RawCluster(loop, settings, "groups")
    wanted = list(groups)

    async def ask() -> dict[str, Answered[Described]]:
        await cluster.connected()
        return await Groups(cluster).describe(wanted)

    try:
        answers: dict[str, Answered[Described]] = loop.run(ask)
    except RawError as error:
        raise ClusterUnreachable(
            "cannot ask for the members of a group", where=settings.alias, evidence=repr(error)
        ) from error
    finally:
        cluster.close()
        loop.close()
    found = {}
    for group, answer in answers.items():
        if answer.value is None:
            raise failure(answer.error, "ask for the members of a group", f"{settings.alias}: {group}")
        found[group] = answer.value.members
    return found
