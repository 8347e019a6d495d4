"""Settings of a topic's copy, by MirrorMaker 2's rules and the needs of its records.

Pure: settings of the source in, wants out; :mod:`drkit.topology.topic_plan` compares them with what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple, Protocol

from drkit.counted import counted
from drkit.topology.filters import NameFilter

NOTHING_PASSES: Final = "0"
"""The value of `max.message.bytes` with which a topic refuses every record."""
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
BROKER_DEFAULT_BYTES: Final = 1_048_588
"""Kafka's default of ``message.max.bytes``: the largest batch of a topic without a setting of its own."""
FENCE_BELOW_BYTES: Final = 1024
"""A ``max.message.bytes`` below this is a fence that keeps producers out."""

WIDEST: Final = str((1 << 63) - 1)
# The broker would overwrite the timestamps of records with its own, or refuse old ones.
PASSIVE: Final[Mapping[str, str]] = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": WIDEST,
    "message.timestamp.after.max.ms": WIDEST,
}
"""Settings of every topic that receives copies; the source's own return when it is opened for producers."""

DEFAULT_CONFIG_EXCLUDE: Final = (
    r"flush\.(messages|ms)",
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"preallocate",
    r"unclean\.leader\.election\.enable",
    r"local\.retention\..*",
    r"remote\.(log|storage)\..*",
)
"""What MM2 excludes, but ``min.insync.replicas`` is kept; flushes, preallocation and tiered storage are about
one cluster's disks."""

_SET_BY_SOMEBODY: Final = frozenset({
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
})  # fmt: skip
_DEFAULT: Final = "DEFAULT_CONFIG"
_SERVER_FILE: Final = "STATIC_BROKER_CONFIG"
_TIMES: Final = "passive: records keep their times, however old"
_SIZE: Final = "the source's batches must fit"


class Setting(Protocol):
    """A value and where it comes from, as in Kafka's DescribeConfigs."""

    @property
    def value(self) -> str | None:
        """None if Kafka does not show the value."""

    @property
    def source(self) -> str:
        """As Kafka names it: DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG and so on."""

    @property
    def is_set_on_topic(self) -> bool:
        """Return whether the value is set on the topic itself."""


class Want(NamedTuple):
    """The wanted value of one setting of a target topic.

    :param value: None: not set on the topic, so that the target's brokers decide
    :param needed: without it records could not be appended unchanged
    :param at_least: an existing larger number stays
    :param explicit: it is to be set on the topic even if the brokers' default is the same
    """

    value: str | None
    why: str
    needed: bool = False
    at_least: bool = False
    explicit: bool = True


_NOTHING: Final = Want(None, "")


@dataclass(frozen=True)
class ConfigRules:
    """Rules for copying the settings of topics in one flow.

    :param exclude: whole-name regular expressions of settings that stay as they are
    :param defaults_from: what the source inherits is left to the target's brokers, or copied
    :param sync: False: new topics get their settings, existing ones only what records need
    """

    exclude: tuple[str, ...] = DEFAULT_CONFIG_EXCLUDE
    defaults_from: Literal["target", "source"] = "target"
    sync: bool = True

    @cached_property
    def _excluded(self) -> NameFilter:
        return NameFilter(self.exclude)

    def leaves(self, name: str) -> bool:
        """Return whether this setting is excluded."""
        return self._excluded.accepts(name)

    def followed(self, source: Mapping[str, Setting]) -> dict[str, str | None]:
        """The settings that follow the source: to a value, or with None back to the target's default.

        MM2 does the same (KIP-894), but leaves alone what the source has from its server.properties, as drkit
        does with ``use.defaults.from=source``: a retention taken back there would stay on the target.
        """
        found: dict[str, str | None] = {}
        for name, setting in source.items():
            if self.leaves(name) or is_fence(name, setting):
                continue
            if setting.source in _SET_BY_SOMEBODY or (
                setting.source == _DEFAULT and self.defaults_from == "source"
            ):
                if setting.value is not None:
                    found[name] = setting.value
            elif setting.source == _DEFAULT or (
                setting.source == _SERVER_FILE and self.defaults_from == "target"
            ):
                found[name] = None
        return found

    def wanted(
        self, source: Mapping[str, Setting], replicas: int | None, *, new: bool = False
    ) -> dict[str, Want]:
        """Return the wanted settings of the passive copy; other settings stay as they are.

        :param replicas: of the copy, where known: never are more demanded in sync than exist
        :param new: the topic is to be created
        """
        wants = {}
        if self.sync or new:
            for name, value in self.followed(source).items():
                why = "inherited on the source" if value is None else "as on the source"
                wants[name] = Want(value, why)
        self._bound_in_sync(wants, replicas)
        wants |= {name: Want(value, _TIMES, needed=True) for name, value in PASSIVE.items()}
        wants.pop(MAX_MESSAGE_BYTES, None)
        if (room := self._room(source)) is not None:
            wants[MAX_MESSAGE_BYTES] = room
        return wants

    def _room(self, source: Mapping[str, Setting]) -> Want | None:
        setting = source.get(MAX_MESSAGE_BYTES)
        if setting is None or self.leaves(MAX_MESSAGE_BYTES) or is_fence(MAX_MESSAGE_BYTES, setting):
            return None
        explicit = self.followed({MAX_MESSAGE_BYTES: setting}).get(MAX_MESSAGE_BYTES) is not None
        # Older batches of the source may exceed its current limit: the copy's limit never decreases.
        return Want(setting.value, _SIZE, needed=True, at_least=True, explicit=explicit)

    @staticmethod
    def _bound_in_sync(wants: dict[str, Want], replicas: int | None) -> None:
        asked = wants.get(MIN_INSYNC_REPLICAS, _NOTHING).value
        if asked is not None and replicas is not None and int(asked) > replicas:
            why = f"the source has {asked}, but the copy has {counted(replicas, 'replica')}"
            wants[MIN_INSYNC_REPLICAS] = Want(str(replicas), why)


_FOREVER: Final = "-1"
_DELETES: Final[Mapping[str, str]] = {"retention.ms": _FOREVER, "retention.bytes": _FOREVER}
_COMPACTS: Final[Mapping[str, str]] = {"max.compaction.lag.ms": WIDEST, "min.compaction.lag.ms": WIDEST}
KEEPING_ALL: Final[Mapping[str, str]] = {**_DELETES, **_COMPACTS}
"""Each setting that :func:`keeping_all` may name, with its value."""


def keeping_all(configs: Mapping[str, Setting]) -> dict[str, str]:
    """The settings with which nothing is removed from a topic."""
    setting = configs.get("cleanup.policy")
    policy = (setting.value if setting is not None else None) or ""
    return (dict(_DELETES) if "delete" in policy else {}) | (dict(_COMPACTS) if "compact" in policy else {})


class Retention(NamedTuple):
    """The age in ms and the size in bytes that a topic keeps by its settings, each None without a limit."""

    ms: int | None
    bytes: int | None

    @classmethod
    def of(cls, configs: Mapping[str, Setting]) -> Retention:
        """Return the limits, set or inherited; no limits if the topic is only compacted, or held."""
        values = (configs[n].value if n in configs and is_expiring(configs) else None for n in _DELETES)
        return cls(*(None if value in {None, _FOREVER} else int(value or 0) for value in values))


def own_value(configs: Mapping[str, Setting], name: str) -> str | None:
    """Return the value set on the topic itself, or None if it is inherited."""
    found = configs.get(name)
    return found.value if found is not None and found.is_set_on_topic else None


def is_fence(name: str, setting: Setting) -> bool:
    """Whether this is drkit's fence on a cluster without ACLs: it must never reach the other cluster."""
    return name == MAX_MESSAGE_BYTES and setting.value is not None and int(setting.value) < FENCE_BELOW_BYTES


def max_message_bytes(configs: Mapping[str, Setting]) -> int:
    """The largest batch in bytes, set or inherited."""
    setting = configs.get(MAX_MESSAGE_BYTES)
    return int(setting.value) if setting is not None and setting.value is not None else BROKER_DEFAULT_BYTES


def is_compacted(configs: Mapping[str, Setting]) -> bool:
    """Return whether the topic is compacted (retention may apply, too)."""
    setting = configs.get("cleanup.policy")
    return setting is not None and "compact" in (setting.value or "")


def is_expiring(configs: Mapping[str, Setting]) -> bool:
    """Return whether retention trims the topic (it may be compacted, too)."""
    setting = configs.get("cleanup.policy")
    return setting is None or "delete" in (setting.value or "delete")
