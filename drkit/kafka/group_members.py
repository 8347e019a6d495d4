"""Which groups there are, and who is in them, asked once from ordinary code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable
from drkit.kafka.group_asking import Answered
from drkit.kafka.groups import Described, Groups, Listed, Member, failure
from drkit.kafka.raw import EventLoop, RawCluster, RawError


def group_members(settings: ClusterSettings, groups: Iterable[str]) -> dict[str, tuple[Member, ...]]:
    """The members of some groups; a group that does not exist has none.

    :raises NotAuthorized: drkit's principal may not describe one of them
    :raises ClusterUnreachable: no answer
    """
    wanted = list(groups)
    answers: dict[str, Answered[Described]] = _ask(
        settings, "ask for the members of a group", lambda known: known.describe(wanted)
    )
    found = {}
    for group, answer in answers.items():
        if answer.value is None:
            raise failure(answer.error, "ask for the members of a group", f"{settings.alias}: {group}")
        found[group] = answer.value.members
    return found


def listed_groups(settings: ClusterSettings) -> dict[str, Listed]:
    """The groups that drkit's principal may see.

    :raises ClusterUnreachable: a broker does not answer, so groups may be missing
    """
    found: dict[str, Listed] = _ask(settings, "list groups", lambda known: known.listed())
    return found


def _ask(settings: ClusterSettings, what: str, question: Callable[[Groups], Awaitable[Any]]) -> Any:
    loop = EventLoop()
    cluster = RawCluster(loop, settings, "groups")

    async def ask() -> Any:
        await cluster.connected()
        return await question(Groups(cluster))

    try:
        return loop.run(ask)
    except RawError as error:
        raise ClusterUnreachable(f"cannot {what}", where=settings.alias, evidence=repr(error)) from error
    finally:
        cluster.close()
        loop.close()
