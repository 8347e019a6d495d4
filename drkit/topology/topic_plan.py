"""From wanted and actual topics of a target to the ordered changes between them. Pure.

The order: capacity before data, protection of data before what could remove it, removal last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from drkit.counted import counted
from drkit.topology.topic_configs import Setting, Want

_POLICY: Final = "cleanup.policy"
_UNLIMITED: Final = "-1"
_LIMITS: Final = frozenset({"retention.bytes", "retention.ms"})
_JITTER: Final = "segment.jitter.ms"
_HOUR_MS: Final = 3_600_000
_NUMBERS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    _JITTER: (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
}
"""Numbers that decide how long records are kept, with the broker settings from which a topic inherits each,
and their units; the first that is set counts. Brokers remove whole segments, and compact all but the newest:
smaller ones lose their records sooner."""
_REMOVES_WHEN: Final[Mapping[str, str]] = {
    "remote.log.delete.on.disable": "true",
    "remote.storage.enable": "false",
}
"""Tiered storage: the segments that it has moved away are deleted."""
_DECIDING: Final = frozenset({_POLICY, *_NUMBERS, *_REMOVES_WHEN})


class Removal(NamedTuple):
    """A change of one setting after which a topic keeps less."""

    before: str | None
    after: str | None
    """None: taken off the topic, so that the brokers' default counts."""


def keeps_less(name: str, before: str | None, after: str | None) -> bool:
    """Return whether a topic keeps less with another value of a setting.

    :param before: None: unknown, like `after`; then the topic may keep less
    """
    if name not in _DECIDING:
        return False
    if before is None or after is None:
        return True
    if name == _POLICY:
        return not _policies(after) <= _policies(before)
    if name in _REMOVES_WHEN:
        return before != after == _REMOVES_WHEN[name]
    return _kept(name, after) < _kept(name, before)


def inherited(name: str, broker: Mapping[str, Setting]) -> str | None:
    """Return the value that topics inherit for a setting, or None where it is unknown.

    :param broker: all settings of a broker
    """
    for broker_name, unit in (("log.cleanup.policy", 1),) if name == _POLICY else _NUMBERS.get(name, ()):
        setting = broker.get(broker_name)
        if setting is not None and setting.value is not None:
            value = setting.value
            return value if unit == 1 or value == _UNLIMITED else str(int(value) * unit)
    return None


def removals(
    current: Mapping[str, Setting], wants: Mapping[str, Want], default: Callable[[str], str | None]
) -> dict[str, Removal]:
    """Return the settings of an existing topic that let it keep less as wanted than they do now.

    :param default: returns the value that the topic inherits for a setting, or None where it is unknown
    """
    changes = {}
    for name, want in wants.items():
        setting = current.get(name)
        if name not in _DECIDING or setting is None or (want.value is None and not setting.is_set_on_topic):
            continue
        if keeps_less(name, setting.value, default(name) if want.value is None else want.value):
            changes[name] = Removal(setting.value, want.value)
    return changes


def _policies(value: str) -> set[str]:
    return {part.strip() for part in value.split(",") if part.strip()}


def _kept(name: str, value: str) -> float:
    number = float(value)
    if name == _JITTER:
        return -number
    return float("inf") if name in _LIMITS and number < 0 else number


DEFAULT: Final = "default"
"""A plan's word for a value that the target's brokers decide."""


class TopicStep(IntEnum):
    """The order of changes: all of one step before any of the next."""

    CREATE = 0
    GROW = 1
    NEEDED = 2
    WIDEN = 3
    REST = 4
    DELETE = 5


class ChangeRow(NamedTuple):
    """A change as text, for tables and JSON."""

    topic: str
    what: str
    setting: str
    before: str | None
    after: str | None
    why: str

    def of(self, flow: str) -> dict[str, str | None]:
        """Return it as plain data, as a change of a flow."""
        named = {"flow": flow, "topic": self.topic, "what": self.what, "setting": self.setting}
        return {**named, "from": self.before, "to": self.after, "why": self.why}


@dataclass(frozen=True)
class TopicChange(ABC):
    """One change of one target topic."""

    topic: str
    why: str

    @property
    @abstractmethod
    def step(self) -> TopicStep:
        """The step of this change."""

    @abstractmethod
    def rows(self) -> Iterator[ChangeRow]:
        """The change as rows of text."""


@dataclass(frozen=True)
class CreateTopic(TopicChange):
    """Create a topic with the settings of ``configs`` from the start."""

    partitions: int
    replicas: int
    configs: Mapping[str, Want]

    step = TopicStep.CREATE

    def rows(self) -> Iterator[ChangeRow]:
        """The topic, then each of its settings."""
        replicas = "default replicas" if self.replicas < 0 else counted(self.replicas, "replica")
        size = f"{counted(self.partitions, 'partition')}, {replicas}"
        yield ChangeRow(self.topic, "create topic", "", None, size, self.why)
        for name, want in sorted(self.configs.items()):
            yield ChangeRow(self.topic, "with config", name, None, want.value, want.why)


@dataclass(frozen=True)
class AddPartitions(TopicChange):
    """Give a topic more partitions."""

    before: int
    after: int

    step = TopicStep.GROW

    def rows(self) -> Iterator[ChangeRow]:
        """One row."""
        yield ChangeRow(self.topic, "add partitions", "", str(self.before), str(self.after), self.why)


@dataclass(frozen=True)
class SetConfig(TopicChange):
    """Set one setting on the topic."""

    setting: str
    before: str | None
    after: str
    needed: bool = False

    @property
    def step(self) -> TopicStep:
        """Needed ones first, then what keeps more records, then the rest."""
        if self.needed:
            return TopicStep.NEEDED
        keeps_more = keeps_less(self.setting, self.after, self.before)
        keeps_more = keeps_more and not keeps_less(self.setting, self.before, self.after)
        return TopicStep.WIDEN if keeps_more else TopicStep.REST

    def rows(self) -> Iterator[ChangeRow]:
        """One row."""
        yield ChangeRow(self.topic, "set config", self.setting, self.before, self.after, self.why)


@dataclass(frozen=True)
class DeleteConfig(TopicChange):
    """Take one setting off the topic, so that the target's brokers decide."""

    setting: str
    before: str | None

    step = TopicStep.REST
    """The brokers' value is unknown here and may remove records."""

    def rows(self) -> Iterator[ChangeRow]:
        """One row."""
        yield ChangeRow(self.topic, "delete config", self.setting, self.before, DEFAULT, self.why)


@dataclass(frozen=True)
class DeleteTopic(TopicChange):
    """Delete a topic whose source is gone."""

    topic_id: str

    step = TopicStep.DELETE

    def rows(self) -> Iterator[ChangeRow]:
        """One row."""
        yield ChangeRow(self.topic, "delete topic", "", self.topic_id, None, self.why)


class WantedTopic(NamedTuple):
    """A target topic as it is to be; settings not named stay as they are."""

    topic: str
    partitions: int
    replicas: int
    configs: Mapping[str, Want]
    why: str = "not on the target yet"


class ActualTopic(NamedTuple):
    """A target topic as it is: its number of partitions and all of its settings, set or inherited."""

    partitions: int
    configs: Mapping[str, Setting]


def plan(
    wanted: Iterable[WantedTopic], actual: Mapping[str, ActualTopic], gone: Iterable[DeleteTopic] = ()
) -> tuple[TopicChange, ...]:
    """The changes that make the actual topics as wanted, in the order in which they are to be made.

    Partitions are never removed: Kafka cannot.

    :param gone: topics to delete
    """
    changes: list[TopicChange] = [*gone]
    for topic in wanted:
        existing = actual.get(topic.topic)
        if existing is None:
            explicit = {n: w for n, w in topic.configs.items() if w.value is not None and w.explicit}
            changes.append(CreateTopic(topic.topic, topic.why, topic.partitions, topic.replicas, explicit))
            continue
        if existing.partitions < topic.partitions:
            why = "the source has more"
            changes.append(AddPartitions(topic.topic, why, existing.partitions, topic.partitions))
        changes += _config_changes(topic, existing.configs)
    return tuple(sorted(changes, key=lambda c: (c.step, c.topic, getattr(c, "setting", ""))))


def _config_changes(topic: WantedTopic, existing: Mapping[str, Setting]) -> Iterator[TopicChange]:
    for name, want in topic.configs.items():
        setting = existing.get(name)
        if setting is None:
            continue  # the target's Kafka does not know it
        if want.value is None:
            if setting.is_set_on_topic:
                yield DeleteConfig(topic.topic, want.why, name, setting.value)
        elif not is_met(want, setting):
            yield SetConfig(topic.topic, want.why, name, setting.value, want.value, want.needed)


def is_met(want: Want, setting: Setting) -> bool:
    """Return whether nothing needs to change."""
    if want.value is None:
        return not setting.is_set_on_topic
    if want.at_least and setting.value is not None and int(setting.value) > int(want.value):
        return True
    return setting.value == want.value and (setting.is_set_on_topic or not want.explicit)
