"""What MirrorMaker 2 left on the target: how far it copied, and whether one of its workers is alive."""

from __future__ import annotations

from collections.abc import Callable
import json
from typing import Final

from drkit.clock import monotonic
from drkit.config import FlowSettings
from drkit.counted import counted
from drkit.errors import Refused
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import Message
from drkit.kafka.groups.requests import group_members
from drkit.kafka.reading.log_reader import read_partitions
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition

_LEAVES_SECONDS: Final = 15.0
"""A killed worker is a member until its session ends: 10 s by default (Connect's session.timeout.ms)."""
_PAUSE_SECONDS: Final = 0.5
SETTING: Final = "takeover_from_mm2"


def offsets_topic(source: str) -> str:
    """The topic on the target in which MM2 keeps its source offsets (dedicated mode)."""
    return f"mm2-offsets.{source}.internal"


def parse(key: bytes | None, value: bytes | None) -> tuple[str, TopicPartition, int | None] | None:
    """One record of that topic: cluster, source partition, last copied offset (None: reset).

    None for a record that is not progress of a MirrorSourceConnector. The order of keys within its key
    is not fixed.
    """
    try:
        _, place = json.loads(key or b"null")
        at = TopicPartition(str(place["topic"]), int(place["partition"]))
        return str(place["cluster"]), at, None if value is None else int(json.loads(value)["offset"])
    except (ValueError, TypeError, KeyError):
        return None


def stored_offsets(target: Cluster, flow: FlowSettings) -> dict[TopicPartition, int] | None:
    """Source partition → the last offset that MM2 is sure to have copied; None without such a topic.

    :raises Failed: the topic cannot be read
    """
    name = offsets_topic(flow.source)
    topic = describe_topics(target, [name]).get(name)
    if topic is None:
        return None
    newest: dict[TopicPartition, tuple[int, int | None]] = {}

    def take(message: Message) -> None:
        found = parse(message.key(), message.value())
        if found is None or found[0] != flow.source:
            return
        when = message.timestamp()[1]
        # The same partition with its JSON keys in another order is in another partition of this topic.
        if found[1] not in newest or newest[found[1]][0] <= when:
            newest[found[1]] = (when, found[2])

    starts = {TopicPartition(name, p): 0 for p in topic.leaders}
    read_partitions(target.settings, starts, take)
    return {at: offset for at, (_, offset) in newest.items() if offset is not None}


def refuse_living(
    target: Cluster,
    flow: FlowSettings,
    pause: Callable[[float], bool],
    patience_seconds: float = _LEAVES_SECONDS,
) -> None:
    """Refuse while a worker of MM2 for this flow is a member of its group on the target.

    :param pause: waits some seconds; True gives up
    :raises Refused: a worker is a member, and stays
    :raises DrkitError: the group's coordinator does not answer, or refuses
    """
    group = f"{flow.source}-mm2"
    deadline = monotonic() + patience_seconds
    while members := group_members(target.settings, [group])[group]:
        if monotonic() > deadline:
            raise Refused(
                "mm2_running",
                where=f"group {group} on {target.alias}",
                evidence=f"{counted(len(members), 'member')},"
                f" at {', '.join(sorted({m.host for m in members}))}",
                flow=flow.name,
            )
        if pause(_PAUSE_SECONDS):
            return
