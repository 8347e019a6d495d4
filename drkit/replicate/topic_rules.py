"""What becomes of a topic: copy, create first, or leave out; and the settings of a passive topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.kafka.topics import BROKER_DEFAULT, ConfigValue, Topic

WIDEST: Final = str((1 << 63) - 1)
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
# The broker would overwrite the times of records with its own, or refuse old ones.
_PASSIVE: Final = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": WIDEST,
    "message.timestamp.after.max.ms": WIDEST,
}
# They describe brokers or storage of one cluster, not the topic's content.
_NOT_CARRIED: Final = frozenset({
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "message.timestamp.difference.max.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "unclean.leader.election.enable",
})  # fmt: skip


class Action(Enum):
    """What to do with a topic."""

    COPY = "copy"
    CREATE = "create"
    LEAVE = "leave out"


class Decision(NamedTuple):
    """The action, the event that led to it (empty: nothing unusual), and the new generation number."""

    action: Action
    kind: str = ""
    generation: int = 1
    old_id: str = ""
    new_id: str = ""

    @property
    def identity(self) -> str:
        """Tells this finding from a later one of the same kind."""
        return f"{self.old_id}>{self.new_id}"


class CopiedTopic(NamedTuple):
    """A topic with everything a lease says about it."""

    source: Topic
    target_name: str
    target_id: str
    compacted: bool
    max_message_bytes: int


@dataclass(slots=True)
class Round:
    """What one look at both clusters found."""

    copied: dict[str, CopiedTopic] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Source topic → why it is not copied."""
    actions: dict[str, str] = field(default_factory=dict)
    """Source topic → what was done (or, in a dry run, would be done) besides copying."""


def decide(
    flow: FlowSettings, source: Topic, target: Topic | None, known: Mapping[str, Any] | None
) -> Decision:
    """Compare what stands on both clusters with what the registry says of the last generation."""
    create = Action.COPY if target is not None else Action.CREATE
    if known is None:
        return Decision(create)
    generation = int(known["generation"])
    if UUID(known["source_id"]) != source.topic_id:
        ids = known["source_id"], str(source.topic_id)
        return _by_policy(flow.on_source_recreated, create, "source_recreated", generation, *ids)
    if target is None or UUID(known["target_id"]) != target.topic_id:
        ids = known["target_id"], str(target.topic_id) if target is not None else ""
        return _by_policy(flow.on_target_deleted, create, "target_deleted", generation, *ids)
    return Decision(Action.COPY, generation=generation)


def _by_policy(policy: str, go_on: Action, kind: str, generation: int, old_id: str, new_id: str) -> Decision:
    if policy == "new_generation":
        return Decision(go_on, kind, generation + 1, old_id, new_id)
    return Decision(Action.LEAVE, kind, generation, old_id, new_id)


def replication_factor(flow: FlowSettings, source: Topic, target_brokers: int) -> int:
    """Replicas of a topic to create.

    :raises Refused: more than the target has brokers
    """
    wanted = source.replication_factor if flow.replication_factor is None else flow.replication_factor
    if wanted != BROKER_DEFAULT and wanted > target_brokers:
        raise Refused(
            f"the target cannot hold {wanted} replicas",
            where=f"topic {source.name}, flow {flow.name}",
            evidence=f"{target_brokers} brokers on {flow.target}",
            hint=f"set replication_factor = {target_brokers} in the flow, or add brokers",
        )
    return wanted


def passive_configs(source: Mapping[str, ConfigValue], replicas: int) -> dict[str, str]:
    """Settings of a topic to create: those set explicitly on the source, made fit to receive copies.

    :param replicas: of the new topic; never are more demanded in sync than exist
    """
    found = {
        name: setting.value
        for name, setting in source.items()
        if setting.is_set_on_topic and setting.value is not None and name not in _NOT_CARRIED
    }
    if MIN_INSYNC_REPLICAS in found and replicas != BROKER_DEFAULT:
        found[MIN_INSYNC_REPLICAS] = str(min(int(found[MIN_INSYNC_REPLICAS]), replicas))
    return {**found, **_PASSIVE, MAX_MESSAGE_BYTES: str(max_message_bytes(source))}


def needed_changes(
    source: Mapping[str, ConfigValue], target: Mapping[str, ConfigValue]
) -> dict[str, str | None]:
    """What must change on an existing target topic before records can be appended unchanged."""
    changes: dict[str, str | None] = {
        name: value for name, value in _PASSIVE.items() if name in target and target[name].value != value
    }
    if max_message_bytes(target) < max_message_bytes(source):
        changes[MAX_MESSAGE_BYTES] = str(max_message_bytes(source))
    return changes


def max_message_bytes(configs: Mapping[str, ConfigValue]) -> int:
    """The largest batch in bytes, set or inherited."""
    setting = configs.get(MAX_MESSAGE_BYTES)
    return int(setting.value) if setting is not None and setting.value is not None else 1_048_588


def is_compacted(configs: Mapping[str, ConfigValue]) -> bool:
    """Whether the topic is compacted (perhaps besides being trimmed)."""
    setting = configs.get("cleanup.policy")
    return setting is not None and "compact" in (setting.value or "")
