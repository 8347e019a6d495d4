"""Decides about a topic: copy, create first, or leave out; and what is kept about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from drkit.config import FlowSettings
from drkit.counted import counted
from drkit.errors import Refused
from drkit.flow_state.records import GenerationRecord, OppositePromotionRecord, PromotionRecord, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import BROKER_DEFAULT, ConfigValue
from drkit.pair.promotions import flow_promotion_of, to_reprotect
from drkit.topology.topic_configs import PASSIVE
from drkit.topology.topic_plan import (
    AddPartitions,
    ChangeRow,
    CreateTopic,
    DeleteConfig,
    DeleteTopic,
    SetConfig,
    TopicChange,
)

Configs = dict[str, ConfigValue]


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
        """A text that separates this finding from a later one of the same kind."""
        return f"{self.old_id}>{self.new_id}"


class Pair(NamedTuple):
    """A source topic, its settings, and its copy if there is one."""

    source: TopicMetadata
    configs: Configs
    target_name: str
    target: TopicMetadata | None


class CopiedTopic(NamedTuple):
    """A copied topic with its properties for a lease."""

    source: TopicMetadata
    target_name: str
    target_id: str
    compacted: bool
    max_message_bytes: int


PROMOTED: Final = "promoted: producers own the copy"
FROZEN: Final = "frozen: a failover is about to open the copy"


@dataclass(slots=True)
class TopicSyncResult:
    """The result of one comparison of both clusters."""

    copied: dict[str, CopiedTopic] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Source topic → why it is not copied."""
    actions: dict[str, str] = field(default_factory=dict)
    """Source topic → the actions (in a dry run: planned actions) other than copying, in one line."""
    changes: list[TopicChange] = field(default_factory=list)
    """The changes that were made on the target (or, in a dry run, would be), in their order."""
    delayed: list[ChangeRow] = field(default_factory=list)
    """Changes that are not followed yet, because the copy would keep fewer records."""

    def promoted(self) -> TopicSyncResult:
        """Return the result after a failover of the whole flow: copies are opened, nothing is copied."""
        opened = {*self.copied, *(name for name, why in self.left_out.items() if why == FROZEN)}
        return TopicSyncResult(left_out=self.left_out | dict.fromkeys(sorted(opened), PROMOTED))


def without_held(configs: Configs, held: Mapping[str, str]) -> Configs:
    """Return a source topic's settings without those of a hold, which are not followed.

    :param held: values that a hold has set
    """
    return {
        n: setting
        for n, setting in configs.items()
        if n not in held or setting.value != held[n] or not setting.is_set_on_topic
    }


def decide(
    flow: FlowSettings, source: TopicMetadata, target: TopicMetadata | None, known: GenerationRecord | None
) -> Decision:
    """Compare the topics on both clusters with the last generation in the registry."""
    create = Action.COPY if target is not None else Action.CREATE
    if known is None:
        return Decision(create)
    generation = known.generation
    if known.source_id != source.topic_id:
        ids = str(known.source_id), str(source.topic_id)
        return _by_policy(flow.on_source_recreated, create, "source_recreated", generation, *ids)
    if target is None or known.target_id != target.topic_id:
        ids = str(known.target_id), str(target.topic_id) if target is not None else ""
        return _by_policy(flow.on_target_deleted, create, "target_deleted", generation, *ids)
    return Decision(Action.COPY, generation=generation)


def _by_policy(policy: str, go_on: Action, kind: str, generation: int, old_id: str, new_id: str) -> Decision:
    if policy == "new_generation":
        return Decision(go_on, kind, generation + 1, old_id, new_id)
    return Decision(Action.LEAVE, kind, generation, old_id, new_id)


def replication_factor(flow: FlowSettings, source: TopicMetadata, target_brokers: int) -> int:
    """Return the replication factor of a new topic. Raises Refused if the target has fewer brokers."""
    replicas = source.replication_factor if flow.replication_factor is None else flow.replication_factor
    if replicas != BROKER_DEFAULT and replicas > target_brokers:
        raise Refused(
            "replicas_impossible",
            where=f"topic {source.name}, flow {flow.name}",
            evidence=f"brokers on {flow.target}: {target_brokers}",
            wanted=replicas,
            target_brokers=target_brokers,
        )
    return replicas


class FlowPromoted(Refused):
    """A failover promoted the whole flow: it does not run until a failback makes its target passive."""


def refuse_promoted(flow: FlowSettings, state: FlowState) -> None:
    """Refuse to copy from a cluster whose role has moved to this flow's target.

    :raises Refused: a failover took all of this flow over
    """
    promotion = state.get(PromotionRecord)
    if promotion is None:
        return
    if flow_promotion_of(state) is None:
        newest = max(state.all(OppositePromotionRecord).values(), key=lambda each: each.term)
        raise FlowPromoted(
            "promoted_by_failover",
            where=flow.name,
            evidence=f"clients write to {flow.source} again, since term {newest.term}",
            run_id=newest.run_id,
            to_reprotect=to_reprotect(flow.target, flow.source),
            target=flow.target,
        )
    roles = state.readable(RoleRecord).values()
    is_planned = any(role.planned and role.run_id == promotion.run_id for role in roles)
    raise FlowPromoted(
        "target_promoted",
        where=flow.name,
        evidence=f"failover run {promotion.run_id}, term {promotion.term}",
        hint=_way_back(flow, is_planned=is_planned),
        target=flow.target,
        flow=flow.name,
    )


def _way_back(flow: FlowSettings, *, is_planned: bool) -> str:
    if is_planned:
        reprotect = to_reprotect(flow.source, flow.target)
        return f"{reprotect}, then: drkit replicate --flow '{flow.target}->{flow.source}'"
    return f"keep {flow.source} fenced; drkit divergence says what only it has"


def drifted(
    changes: Iterable[TopicChange], followed: Mapping[str, str | None], recorded: Mapping[str, str] | None
) -> list[str]:
    """Return the settings of these changes that changed on the target and not on the source.

    :param followed: the source's settings now
    :param recorded: those of the last comparison; None when there was none
    """
    if recorded is None:
        return []
    settings = [c.setting for c in changes if isinstance(c, SetConfig | DeleteConfig)]
    return [s for s in settings if s in PASSIVE or followed.get(s) == recorded.get(s)]


def in_short(changes: Iterable[TopicChange]) -> str:
    """Return the changes of one topic in one line."""
    actions, set_names, reset_names = [], [], []
    for change in changes:
        match change:
            case CreateTopic(partitions=partitions, replicas=replicas):
                actions.append(
                    f"create with {counted(partitions, 'partition')}, {counted(replicas, 'replica')}"
                )
            case AddPartitions(before=before, after=after):
                actions.append(f"grow from {before} to {after} partitions")
            case SetConfig(setting=name):
                set_names.append(name)
            case DeleteConfig(setting=name):
                reset_names.append(name)
            case DeleteTopic(topic=topic):
                actions.append(f"delete {topic}")
    actions += ["set " + ", ".join(sorted(set_names))] if set_names else []
    actions += ["set to default " + ", ".join(sorted(reset_names))] if reset_names else []
    return "; ".join(actions)
