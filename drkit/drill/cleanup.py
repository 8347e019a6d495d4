"""Delete what drills made: by topic id, and only what their own records name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from uuid import UUID

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.drill.record import SOURCE, TARGET, CleanupState, DrillRecord, DrillRecords, MadeItem, owed
from drkit.errors import DrkitError, Refused
from drkit.kafka.access.acls import NoAuthorizer, delete_acls, list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.codes import error_name
from drkit.kafka.delete_topics import delete_topics_by_id
from drkit.kafka.groups.requests import Groups
from drkit.kafka.one_shot import ask_once
from drkit.kafka.raw import RawCluster
from drkit.kafka.topics import describe_topics
from drkit.topology.acls import ResourceKind

_MEMBERS_SECONDS: Final = 15.0
"""Members of a killed client keep a group from being deleted until their session ends."""
_LOOK_SECONDS: Final = 0.5


def clean_up(settings: Settings, flow: FlowSettings) -> dict[str, list[str]]:
    """Delete what is left of drills that owe their cleanup, from their records alone.

    :param settings: of production
    :param flow: of production
    :returns: drill id → what could not be deleted, with the reason; empty lists: nothing is left
    :raises Refused: a drill is running
    :raises DrkitError: the records cannot be read or written
    """
    records = DrillRecords(settings.cluster(flow.target), flow.source)
    indebted = owed(records.load().values())
    for record in indebted:
        if record.is_running(wall_ms()):
            holder = "" if record.holder is None else f"process {record.holder.pid} on {record.holder.host}"
            raise Refused(
                "a drill of this flow is running",
                where=f"drill {record.plan.id}",
                evidence=holder,
                hint="wait for its end",
            )
    return {record.plan.id: clean_up_drill(settings, flow, records, record) for record in indebted}


def clean_up_drill(
    settings: Settings, flow: FlowSettings, records: DrillRecords, record: DrillRecord
) -> list[str]:
    """Delete what one drill made, and note that in its record if nothing is left.

    :returns: what could not be deleted, with the reason
    :raises DrkitError: the record cannot be written
    """
    problems: list[str] = []
    for side, alias in ((SOURCE, flow.source), (TARGET, flow.target)):
        cluster = settings.cluster(alias)
        try:
            problems += _delete_groups(cluster, record.on(side, "group"))
            problems += _delete_acls(cluster, record.on(side, "topic"))
            problems += _delete_topics(cluster, record.on(side, "topic"))
        except DrkitError as error:
            problems.append(f"{alias}: {error.in_short}")
    if not problems:
        records.put(replace(record, cleanup=CleanupState.DONE))
    return problems


def topic_ids(settings: ClusterSettings, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of the topics that exist."""
    found = describe_topics(Cluster.connect(settings), names)
    return {name: str(topic.topic_id) for name, topic in found.items()}


def _delete_topics(cluster: ClusterSettings, items: list[MadeItem]) -> list[str]:
    """Delete topics of a record.

    A topic that was never seen had not existed when the record named it. Names of drills are reserved, so
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


def _delete_groups(cluster: ClusterSettings, items: list[MadeItem]) -> list[str]:
    names = [item.name for item in items]

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
    """Delete the ACLs of a fence: those on exactly a topic of the record."""
    names = {item.name for item in items}
    try:
        acls = [a for a in list_acls(cluster).acls if a.resource is ResourceKind.TOPIC and a.name in names]
    except NoAuthorizer:
        return []
    refused = delete_acls(cluster, acls) if acls else {}
    return [f"ACL {acl} on {cluster.alias}: {error.in_short}" for acl, error in refused.items()]
