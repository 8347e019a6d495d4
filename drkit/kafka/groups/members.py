"""The groups of a cluster and their members, asked once from ordinary code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drkit.config import ClusterSettings
from drkit.kafka.groups.member import Member
from drkit.kafka.groups.requests import Groups, ListedGroup, failure
from drkit.kafka.one_shot import ask_once

_PURPOSE: Final = "groups"


def group_members(settings: ClusterSettings, groups: Iterable[str]) -> dict[str, tuple[Member, ...]]:
    """The members of some groups; a group that does not exist has none.

    :raises NotAuthorized: drkit's principal may not describe one of them
    :raises ClusterUnreachable: no answer
    """
    wanted = list(groups)
    answers = ask_once(
        settings, _PURPOSE, lambda c: Groups(c).describe(wanted), what="ask for the members of a group"
    )
    found = {}
    for group, answer in answers.items():
        if answer.value is None:
            raise failure(answer.error, "ask for the members of a group", f"{settings.alias}: {group}")
        found[group] = answer.value.members
    return found


def listed_groups(settings: ClusterSettings) -> dict[str, ListedGroup]:
    """The groups that drkit's principal may see.

    :raises ClusterUnreachable: a broker does not answer, so groups may be missing
    """
    return ask_once(settings, _PURPOSE, lambda c: Groups(c).listed(), what="list groups")
