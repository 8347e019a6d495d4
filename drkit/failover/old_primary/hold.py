"""HOLD: what the old primary has is kept. Its retention and its cleaner rest until its topics have begun.

Both run as soon as the old primary is up, and would remove records that only it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import ConfigValue, alter_topic_configs, topic_configs
from drkit.topology.topic_configs import WIDEST

HOLD: Final = "hold"
"""The effect of CONTACT; its details hold the values of before."""
_POLICY: Final = "cleanup.policy"
_FOREVER: Final = "-1"
_DELETES: Final[Mapping[str, str]] = {"retention.ms": _FOREVER, "retention.bytes": _FOREVER}
_COMPACTS: Final[Mapping[str, str]] = {"max.compaction.lag.ms": WIDEST, "min.compaction.lag.ms": WIDEST}
_HELD: Final[Mapping[str, str]] = {**_DELETES, **_COMPACTS}
Before = dict[str, dict[str, str | None]]
"""Topic → setting → its value on the topic before; None: the topic had none of its own."""


class Released(NamedTuple):
    """Topics that have their settings of before HOLD again."""

    topics: tuple[str, ...]
    kept: tuple[str, ...]
    """Settings that somebody has changed since HOLD, with their values: they stay."""

    def notes(self) -> list[str]:
        """What a person has to know."""
        return [f"set since it was held, and left so: {first_of(self.kept)}"] if self.kept else []


_NOTHING: Final = Released((), ())


def hold(context: Context, topics: Collection[str]) -> int:
    """Keep what some topics of the old primary have; return how many are held. Repeated, it changes nothing.

    :param topics: by their names on the old primary; those that do not exist there are left out
    :raises DrkitError: the old primary does not answer, or refuses
    """
    cluster = Cluster.connect(context.source_settings)
    existing = topic_configs(cluster, topics)
    known = held(context)
    # A topic whose policy was changed meanwhile has other settings to hold: each counts by itself.
    before = {
        t: {name: _own(c, name) for name in held_settings(c)} | known.get(t, {}) for t, c in existing.items()
    }
    before = known | before
    if not before:
        return 0
    with context.effect(StepName.CONTACT, HOLD, before=before) as outcome:
        changes = {t: held_settings(c) for t, c in existing.items() if not _is_held(c)}
        _judge(context, alter_topic_configs(cluster, changes), "held")
        outcome["held"] = sorted(before)
    return len(before)


def held(context: Context) -> Before:
    """What was held by this run, with the values of before."""
    effect = context.effects(StepName.CONTACT).get(HOLD)
    found: Before = effect["intent"]["before"] if effect is not None else {}
    return found


def release(context: Context, topics: Collection[str]) -> Released:
    """Give topics their settings of before HOLD back, each by itself. What was set since stays.

    :raises DrkitError: the old primary does not answer, or refuses
    """
    before = {t: v for t, v in held(context).items() if t in topics}
    if not before:
        return _NOTHING
    cluster = Cluster.connect(context.source_settings)
    changes: Before = {}
    kept: list[str] = []
    for t, configs in sorted(topic_configs(cluster, before).items()):
        now = {name: _own(configs, name) for name in before[t]}
        changes[t] = {name: value for name, value in before[t].items() if now[name] == _HELD[name]}
        others = before[t].keys() - changes[t].keys()
        kept += [f"{t}: {n}={now[n]}" for n in sorted(others) if now[n] != before[t][n]]
    _judge(context, alter_topic_configs(cluster, changes), "released")
    return Released(tuple(sorted(before)), tuple(kept))


def held_settings(configs: Mapping[str, ConfigValue]) -> dict[str, str]:
    """The settings with which nothing is removed from a topic."""
    policy = configs[_POLICY].value or ""
    return (dict(_DELETES) if "delete" in policy else {}) | (dict(_COMPACTS) if "compact" in policy else {})


def _is_held(configs: Mapping[str, ConfigValue]) -> bool:
    return all(_own(configs, name) == value for name, value in held_settings(configs).items())


def _own(configs: Mapping[str, ConfigValue], name: str) -> str | None:
    found = configs.get(name)
    return found.value if found is not None and found.is_set_on_topic else None


def _judge(context: Context, refused: Mapping[str, Exception], done: str) -> None:
    if refused:
        raise Failed(
            f"the retention of {counted(len(refused), 'topic')} of the old primary could not be {done}",
            where=context.flow.source,
            evidence=first_of(f"{topic}: {error}" for topic, error in sorted(refused.items())),
            hint="grant drkit's principal ALTER_CONFIGS on topics there, then: drkit reprotect --resume",
        )
