"""How a topic of the new primary is kept whole, and put back; what a person sets meanwhile is his. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from drkit.flow_state.records import HeldSettingsRecord
from drkit.topology.topic_configs import Setting, keeping_all, own_value

Values = Mapping[str, str | None]


class Held(NamedTuple):
    """How one topic is kept whole."""

    record: HeldSettingsRecord | None
    """To be on record before anything changes; None: it keeps everything by itself."""
    changes: Mapping[str, str]
    """What is to be set."""
    changed: Values
    """What a person has set since an earlier hold: taken for the topic's own."""


class PutBack(NamedTuple):
    """How one topic gets its settings back."""

    record: HeldSettingsRecord
    """To be on record when they are back."""
    changes: Values
    changed: Values
    """What a person has set meanwhile: it stays."""


def to_hold(configs: Mapping[str, Setting], known: HeldSettingsRecord | None, by: str, now_ms: int) -> Held:
    """What keeps everything of a topic from now on.

    :param configs: of the topic, as they are
    :param known: what is on record of an earlier hold
    """
    active = known if known is not None and known.ended_ms is None else None
    wanted = keeping_all(configs)
    of_hold = active.held if active is not None else {}
    before: dict[str, str | None] = {}
    held: dict[str, str] = {}
    for name in sorted({*wanted, *of_hold}):
        own, value = own_value(configs, name), wanted.get(name, of_hold.get(name, ""))
        if active is not None and own == of_hold.get(name):
            before[name], held[name] = active.before.get(name), value
        elif name in wanted and own != value:
            before[name], held[name] = own, value
    changes = {n: v for n, v in held.items() if own_value(configs, n) != v}
    changed = _changed(configs, active) if active is not None else {}
    if not held:
        return Held(None, {}, changed)
    at_ms = now_ms if changes or active is None else active.at_ms
    return Held(HeldSettingsRecord(at_ms, by, before, held), changes, changed)


def to_put_back(configs: Mapping[str, Setting] | None, record: HeldSettingsRecord, now_ms: int) -> PutBack:
    """The changes that restore a topic's settings from before the hold.

    :param configs: of the topic, as they are; None: it is gone
    """
    ended = replace(record, ended_ms=now_ms)
    if configs is None:
        return PutBack(ended, {}, {})
    changes = {n: record.before.get(n) for n, v in record.held.items() if own_value(configs, n) == v}
    return PutBack(ended, changes, _changed(configs, record))


def _changed(configs: Mapping[str, Setting], record: HeldSettingsRecord) -> dict[str, str | None]:
    own = {n: own_value(configs, n) for n in record.held}
    return {n: v for n, v in own.items() if v not in (record.held[n], record.before.get(n))}
