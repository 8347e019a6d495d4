"""HOLD: what the old primary has is kept. Its retention and its cleaner rest until its topics have begun.

Both run as soon as the old primary is up, and would remove records that only it has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from drkit.counted import first_of
from drkit.failover.core.context import Context
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, refuse_unset, topic_configs
from drkit.topology.topic_configs import KEEPING_ALL, keeping_all, own_value

HOLD: Final = "hold"
"""The effect of CONTACT; its details hold the earlier values."""
Before = dict[str, dict[str, str | None]]
"""Topic → setting → its value on the topic before, or None if the topic had none of its own."""


class Released(NamedTuple):
    """Topics whose settings from before HOLD are restored."""

    topics: tuple[str, ...]
    kept: tuple[str, ...]
    """Settings that a person has changed since HOLD, with their values: they stay."""

    def notes(self) -> list[str]:
        """Return what a person has to know."""
        return [f"set since it was held, and left so: {first_of(self.kept)}"] if self.kept else []


_NOTHING: Final = Released((), ())


def hold(context: Context, topics: Collection[str]) -> int:
    """Hold the settings of existing topics; return how many; repeatable. Raises DrkitError if refused."""
    cluster = Cluster.connect(context.source_settings)
    existing = topic_configs(cluster, topics)
    known = held(context)
    # A topic whose policy was changed meanwhile has other settings to hold: each counts by itself.
    before = {
        t: {name: own_value(c, name) for name in keeping_all(c)} | known.get(t, {})
        for t, c in existing.items()
    }
    before = known | before
    if not before:
        return 0
    with context.effect(StepName.CONTACT, HOLD, before=before) as outcome:
        keeping = {t: keeping_all(c) for t, c in existing.items()}
        changes = {
            t: values
            for t, values in keeping.items()
            if any(own_value(existing[t], name) != value for name, value in values.items())
        }
        refuse_unset("old_retention_failed", cluster, alter_topic_configs(cluster, changes), "held")
        outcome["held"] = sorted(before)
    return len(before)


def hold_again(context: Context, topics: Collection[str]) -> list[str]:
    """Hold again the settings of this run that were changed meanwhile. It may be repeated.

    :param topics: by their names on the old primary; those that are not held are left out
    :returns: the settings that were changed, with their values
    :raises DrkitError: the old primary does not answer, or refuses
    """
    before = {t: values for t, values in held(context).items() if t in topics}
    if not before:
        return []
    cluster = Cluster.connect(context.source_settings)
    changes: Before = {}
    changed = []
    for t, configs in sorted(topic_configs(cluster, before).items()):
        now = {name: own_value(configs, name) for name in before[t]}
        changes[t] = {name: KEEPING_ALL[name] for name in before[t] if now[name] != KEEPING_ALL[name]}
        changed += [f"{t}: {name}={now[name]}" for name in changes[t]]
    changes = {t: values for t, values in changes.items() if values}
    refuse_unset("old_retention_failed", cluster, alter_topic_configs(cluster, changes), "held")
    return changed


def held(context: Context) -> Before:
    """Return the settings that this run holds, with the earlier values."""
    effect = context.effects(StepName.CONTACT).get(HOLD)
    before: Before = effect["intent"]["before"] if effect is not None else {}
    return before


def release(context: Context, topics: Collection[str]) -> Released:
    """Restore the settings from before HOLD, except ones changed since. Raises DrkitError if refused."""
    before = {t: v for t, v in held(context).items() if t in topics}
    if not before:
        return _NOTHING
    cluster = Cluster.connect(context.source_settings)
    changes: Before = {}
    kept: list[str] = []
    for t, configs in sorted(topic_configs(cluster, before).items()):
        now = {name: own_value(configs, name) for name in before[t]}
        changes[t] = {name: value for name, value in before[t].items() if now[name] == KEEPING_ALL[name]}
        others = before[t].keys() - changes[t].keys()
        kept += [f"{t}: {n}={now[n]}" for n in sorted(others) if now[n] != before[t][n]]
    refuse_unset("old_retention_failed", cluster, alter_topic_configs(cluster, changes), "released")
    return Released(tuple(sorted(before)), tuple(kept))
