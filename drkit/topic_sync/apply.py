"""Applies a topic plan to the target, step by step, and reports every change made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from drkit.errors import DrkitError
from drkit.flow_state.events import TopicEvents
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, alter_topic_configs, create_partitions, create_topics, delete_topics
from drkit.topology.topic_plan import (
    AddPartitions,
    CreateTopic,
    DeleteConfig,
    DeleteTopic,
    SetConfig,
    TopicChange,
    TopicStep,
)

_CONFIG_STEPS: Final = frozenset({TopicStep.WIDEN, TopicStep.REST})


class Applied(NamedTuple):
    """What was done, and target topic → why it cannot be copied to."""

    done: list[TopicChange]
    failed: dict[str, DrkitError]


class TopicApply:
    """Makes the changes of a plan; one that fails stops only its own topic."""

    def __init__(self, target: Cluster, events: TopicEvents) -> None:
        self._target = target
        self._events = events

    def apply(self, changes: Sequence[TopicChange], sources: Mapping[str, str]) -> Applied:
        """Make the changes in their order.

        :param sources: target topic → source topic, the name in events
        """
        applied = Applied([], {})
        for step in TopicStep:
            these = [c for c in changes if c.step is step and c.topic not in applied.failed]
            refused = self._make(these) if these else {}
            made = [c for c in these if c.topic not in refused]
            if step in _CONFIG_STEPS:
                # Records arrive unchanged without these: a target that refuses one is named and used.
                made += self._alone([c for c in these if c.topic in refused], sources)
            else:
                applied.failed.update(refused)
            for change in made:
                applied.done.append(change)
                self._tell(change, sources[change.topic])
        return applied

    def _alone(self, changes: Sequence[TopicChange], sources: Mapping[str, str]) -> list[TopicChange]:
        """Make changes one by one, since a broker refuses all for one bad setting; returns those accepted."""
        made = []
        for change in changes:
            error = self._make([change]).get(change.topic)
            if error is None:
                made.append(change)
            elif isinstance(change, SetConfig | DeleteConfig):
                self._events.once(
                    "config_refused", sources[change.topic], f"{change.setting}: {error.evidence}",
                    level="error", target=change.topic, setting=change.setting, evidence=error.evidence,
                    hint=error.hint or "name the setting in config_properties_exclude to leave it alone",
                )  # fmt: skip
        return made

    def _make(self, changes: Sequence[TopicChange]) -> dict[str, DrkitError]:
        plans = [
            TopicPlan(c.topic, c.partitions, c.replicas, {n: w.value or "" for n, w in c.configs.items()})
            for c in changes
            if isinstance(c, CreateTopic)
        ]
        totals = {c.topic: c.after for c in changes if isinstance(c, AddPartitions)}
        settings: dict[str, dict[str, str | None]] = {}
        for change in changes:
            if isinstance(change, SetConfig):
                settings.setdefault(change.topic, {})[change.setting] = change.after
            elif isinstance(change, DeleteConfig):
                settings.setdefault(change.topic, {})[change.setting] = None
        return {
            **create_topics(self._target, plans),
            **create_partitions(self._target, totals),
            **alter_topic_configs(self._target, settings),
            **delete_topics(self._target, [c.topic for c in changes if isinstance(c, DeleteTopic)]),
        }

    def _tell(self, change: TopicChange, source: str) -> None:
        tell = self._events
        if isinstance(change, CreateTopic):
            tell.done("topic_created", change.topic, partitions=change.partitions, replicas=change.replicas,
                      configs={n: w.value for n, w in change.configs.items()})  # fmt: skip
        elif isinstance(change, AddPartitions):
            tell.once("target_grown", source, str(change.after),
                      from_partitions=change.before, to_partitions=change.after)  # fmt: skip
        elif isinstance(change, (SetConfig, DeleteConfig)):
            row = next(change.rows())
            tell.done("config_changed", source, target=change.topic, setting=change.setting,
                      before=row.before, after=row.after, why=change.why)  # fmt: skip
        elif isinstance(change, DeleteTopic):
            tell.written("topic_deleted", source, level="warning", target=change.topic,
                         target_id=change.topic_id, why=change.why)  # fmt: skip
