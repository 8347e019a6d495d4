"""Delete what drills made: by topic id, and only what their own entries name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.drill.entries.history import DrillHistory
from drkit.drill.entry import SOURCE, TARGET, UNFINISHED, MadeItem
from drkit.drill.judge import ABORTED
from drkit.errors import DrkitError, Refused
from drkit.kafka.access.acls import NoAuthorizer, delete_acls, list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.codes import error_name
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.requests import delete_topics_by_id
from drkit.kafka.topics import describe_topics
from drkit.topology.acls import ResourceKind

_MEMBERS_SECONDS: Final = 60.0
"""Members of a killed client keep a group from being deleted until their session ends."""
_LOOK_SECONDS: Final = 0.5


def clean_up(settings: Settings, flow: FlowSettings, history: DrillHistory) -> dict[str, list[str]]:
    """Delete what is left of drills that owe their cleanup, from their entries alone.

    :param settings: of production
    :param flow: of production
    :returns: drill id → what could not be deleted, with the reason; empty lists: nothing is left
    :raises Refused: a drill is running
    :raises DrkitError: the entries cannot be read or written
    """
    owing = history.owing(flow.name)
    for entry in owing:
        if entry.is_running(wall_ms()):
            raise Refused("drill_running", where=f"drill {entry.id}", evidence=entry.runs_as)
    cleaned = {}
    for entry in owing:
        cleaned[entry.id] = delete_made(settings, flow, entry.made)
        if not cleaned[entry.id]:
            is_dead = entry.verdict == UNFINISHED
            end = {"verdict": ABORTED, "reason": "its process was killed"} if is_dead else {}
            history.put(entry.model_copy(update={"cleanup_owed": False} | end), everywhere=True)
    return cleaned


def delete_made(settings: Settings, flow: FlowSettings, made: Iterable[MadeItem]) -> list[str]:
    """Delete what a drill made, and return what could not be deleted, with the reasons."""
    problems: list[str] = []
    for side, cluster in zip((SOURCE, TARGET), settings.sides(flow), strict=True):
        items = [item for item in made if item.side == side]
        topics = [item for item in items if item.kind == "topic"]
        try:
            problems += _delete_groups(cluster, [item.name for item in items if item.kind == "group"])
            problems += _delete_acls(cluster, topics)
            problems += _delete_topics(cluster, topics)
        except DrkitError as error:
            problems.append(f"{cluster.alias}: {error.in_short}")
    return problems


def topic_ids(settings: ClusterSettings, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of the topics that exist."""
    found = describe_topics(Cluster.connect(settings), names)
    return {name: str(topic.topic_id) for name, topic in found.items()}


def _delete_topics(cluster: ClusterSettings, items: list[MadeItem]) -> list[str]:
    """Delete topics of an entry.

    A topic that was never seen had not existed when the entry named it. Names of drills are reserved, so
    the one that has the name now is the drill's.
    """
    present = topic_ids(cluster, [item.name for item in items])
    ours = {
        UUID(present[item.name]): item.name
        for item in items
        if item.name in present and item.topic_id in {"", present[item.name]}
    }

    async def delete(raw: RawCluster) -> dict[UUID, int]:
        return await delete_topics_by_id(raw, ours)

    answers = ask_once(cluster, "drill", delete, what="delete the topics of a drill") if ours else {}
    return [f"topic {ours[i]} on {cluster.alias}: {error_name(code)}" for i, code in answers.items() if code]


def _delete_groups(cluster: ClusterSettings, names: list[str]) -> list[str]:
    def delete() -> dict[str, int]:
        answers = ask_once(cluster, "drill", lambda raw: Groups(raw).delete(names), what="delete groups")
        return {name: code for name, code in answers.items() if code}

    patient = Retrying(
        retry=retry_if_result(bool),
        stop=stop_after_delay(_MEMBERS_SECONDS),
        wait=wait_fixed(_LOOK_SECONDS),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else {},
    )
    return [f"group {name} on {cluster.alias}: {error_name(code)}" for name, code in patient(delete).items()]


def _delete_acls(cluster: ClusterSettings, items: list[MadeItem]) -> list[str]:
    """Delete the ACLs of a fence: those on exactly a topic of the entry."""
    names = {item.name for item in items}
    try:
        acls = [a for a in list_acls(cluster).acls if a.resource is ResourceKind.TOPIC and a.name in names]
    except NoAuthorizer:
        return []
    refused = delete_acls(cluster, acls) if acls else {}
    return [f"ACL {acl} on {cluster.alias}: {error.in_short}" for acl, error in refused.items()]
