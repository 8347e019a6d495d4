"""`drkit reprotect --hold`: the new primary keeps what clients write until another cluster has it, too.

The earlier values are on record in the flow's state, on the new primary, before the first setting changes:
if a process is killed in between, the next one continues or puts back, on any machine. What a person sets
meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from drkit.clock import Millis, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.counted import first_of
from drkit.errors import Refused
from drkit.failover.core.reverse import records_of, state_of
from drkit.flow_state.records import GenerationRecord, HeldSettingsRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, refuse_unset, topic_configs
from drkit.pair.promotions import promoted_of
from drkit.topology.topic_configs import Setting, keeping_all, own_value

Values = Mapping[str, str | None]


class Held(NamedTuple):
    """The plan that keeps one topic whole."""

    record: HeldSettingsRecord | None
    """To be on record before anything changes, or None if the topic keeps everything by itself."""
    changes: Mapping[str, str]
    """The settings to change."""
    changed: Values
    """Settings that a person has changed since an earlier hold: taken for the topic's own."""


class PutBack(NamedTuple):
    """The plan that restores one topic's settings."""

    record: HeldSettingsRecord
    """To be on record once the settings are restored."""
    changes: Values
    changed: Values
    """Settings that a person has changed meanwhile: they stay."""


def to_hold(configs: Mapping[str, Setting], known: HeldSettingsRecord | None, by: str, now_ms: int) -> Held:
    """Return what keeps everything of a topic, by its settings and the record of an earlier hold."""
    active = known if known is not None and known.ended_ms is None else None
    keeping = keeping_all(configs)
    of_hold = active.held if active is not None else {}
    before: dict[str, str | None] = {}
    held: dict[str, str] = {}
    for name in sorted({*keeping, *of_hold}):
        own, value = own_value(configs, name), keeping.get(name, of_hold.get(name, ""))
        if active is not None and own == of_hold.get(name):
            before[name], held[name] = active.before.get(name), value
        elif name in keeping and own != value:
            before[name], held[name] = own, value
    changes = {n: v for n, v in held.items() if own_value(configs, n) != v}
    changed = _changed(configs, active) if active is not None else {}
    if not held:
        return Held(None, {}, changed)
    at_ms = now_ms if changes or active is None else active.at_ms
    return Held(HeldSettingsRecord(at_ms, by, before, held), changes, changed)


def to_put_back(configs: Mapping[str, Setting] | None, record: HeldSettingsRecord, now_ms: int) -> PutBack:
    """Return what restores a topic's settings from before the hold; a deleted one has no `configs`."""
    ended = replace(record, ended_ms=now_ms)
    if configs is None:
        return PutBack(ended, {}, {})
    changes = {n: record.before.get(n) for n, v in record.held.items() if own_value(configs, n) == v}
    return PutBack(ended, changes, _changed(configs, record))


def _changed(configs: Mapping[str, Setting], record: HeldSettingsRecord) -> dict[str, str | None]:
    own = {n: own_value(configs, n) for n in record.held}
    return {n: v for n, v in own.items() if v not in (record.held[n], record.before.get(n))}


class HeldTopic(NamedTuple):
    """A topic of the new primary whose settings were changed, or put back, or would be."""

    topic: str
    before: Values
    """Setting → its value on the topic before, or None if the topic had none of its own."""
    after: Values
    changed: Values
    """Settings that a person has changed meanwhile."""
    changes: Values
    """Settings that are still to be changed, or were changed by this."""


def held_now(settings: Settings, flow: FlowSettings) -> dict[str, HeldSettingsRecord]:
    """Return the active holds, by old topic. Raises DrkitError if the new primary does not answer."""
    return _active(records_of(settings, flow))


def hold(
    settings: Settings,
    flow: FlowSettings,
    topics: Collection[str] = (),
    *,
    by: str,
    effects: bool = True,
    clock: Millis = wall_ms,
) -> list[HeldTopic]:
    """Have the new primary remove nothing from promoted topics; return what changes. It may be repeated.

    :param flow: the flow that was failed over
    :param topics: by their names on its source; all that were promoted if empty
    :param by: who asks for it
    :param effects: whether to apply the changes, or only return them
    :raises Refused: no topic was promoted
    :raises DrkitError: the new primary does not answer, or refuses
    """
    with state_of(settings, flow) as state:
        names = _promoted(flow, state, topics)
        cluster = Cluster.connect(settings.sides(flow)[1])
        configs = topic_configs(cluster, names.values())
        known = state.all(HeldSettingsRecord) if state is not None else {}
        plans: dict[str, Held] = {
            name: to_hold(configs[target], known.get(name), by, clock())
            for name, target in names.items()
            if target in configs
        }
        if effects and state is not None:
            records = ((n, p.record) for n, p in plans.items() if p.record != known.get(n))
            state.put_all((n, record) for n, record in records if record is not None)
            changes = {names[n]: p.changes for n, p in plans.items() if p.changes}
            refuse_unset("new_retention_failed", cluster, alter_topic_configs(cluster, changes), "held")
    own = {
        n: (p.record.before, p.record.held) if p.record is not None else ({}, {}) for n, p in plans.items()
    }
    return [HeldTopic(names[n], *own[n], p.changed, p.changes) for n, p in sorted(plans.items())]


def put_back(
    settings: Settings, flow: FlowSettings, topics: Collection[str] | None = None, *, clock: Millis = wall_ms
) -> list[HeldTopic]:
    """Restore the topics' settings from before :func:`hold` on the new primary; return what changed.

    Settings that a person has changed meanwhile stay.

    :param flow: the flow that was failed over
    :param topics: by their names on its source; None for all that are held
    :raises DrkitError: the new primary does not answer, or refuses
    """
    with state_of(settings, flow) as state:
        active = _active(state.records) if state is not None else {}
        records = {n: r for n, r in active.items() if topics is None or n in topics}
        if state is None or not records:
            return []
        copies = state.all(GenerationRecord)
        names = {n: copies[n].target if n in copies else n for n in records}
        cluster = Cluster.connect(settings.sides(flow)[1])
        configs = topic_configs(cluster, names.values())
        plans = {n: to_put_back(configs.get(names[n]), r, clock()) for n, r in records.items()}
        refused = alter_topic_configs(cluster, {names[n]: p.changes for n, p in plans.items() if p.changes})
        # On record after that: a broker may still show the held values, and they are not a person's own.
        state.put_all((n, p.record) for n, p in plans.items() if names[n] not in refused)
        refuse_unset("new_retention_failed", cluster, refused, "put back")
    return [
        HeldTopic(names[n], {s: records[n].held[s] for s in p.changes}, p.changes, p.changed, p.changes)
        for n, p in sorted(plans.items())
    ]


def _active(state: FlowState) -> dict[str, HeldSettingsRecord]:
    return {n: r for n, r in state.all(HeldSettingsRecord).items() if r.ended_ms is None}


def _promoted(flow: FlowSettings, state: StateTopic | None, topics: Collection[str]) -> dict[str, str]:
    """Return the promoted topics: their names on the old primary → on the new one."""
    promoted = promoted_of(state.records) if state is not None else ()
    copies = state.all(GenerationRecord) if state is not None else {}
    names = {n: copies[n].target for n in promoted if n in copies}
    if not names or not names.keys() >= set(topics):
        others = sorted(set(topics) - names.keys())
        raise Refused(
            "hold_not_promoted",
            where=f"flow {flow.name}",
            evidence=f"not promoted: {first_of(others)}"
            if names
            else f"no failover has promoted a topic on {flow.target}",
        )
    return {n: t for n, t in names.items() if not topics or n in topics}
