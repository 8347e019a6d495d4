"""Decide which changes of a topic's settings let it keep fewer records, or for a shorter time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

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
    found = {}
    for name, want in wants.items():
        setting = current.get(name)
        if name not in _DECIDING or setting is None or (want.value is None and not setting.is_set_on_topic):
            continue
        if keeps_less(name, setting.value, default(name) if want.value is None else want.value):
            found[name] = Removal(setting.value, want.value)
    return found


def _policies(value: str) -> set[str]:
    return {part.strip() for part in value.split(",") if part.strip()}


def _kept(name: str, value: str) -> float:
    """Return a number that grows with what a topic keeps."""
    number = float(value)
    if name == _JITTER:
        return -number
    return float("inf") if name in _LIMITS and number < 0 else number
