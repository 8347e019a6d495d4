"""Maps topic names from source to target and back (MM2: ``ReplicationPolicy``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

MAX_TOPIC_NAME: Final = 249
"""Longest topic name Kafka accepts (``Topic.MAX_NAME_LENGTH``)."""

BUILT_IN_NAMING: Final = ("identity", "prefix")
"""Policies that need no user class."""

_HEARTBEATS: Final = "heartbeats"


def is_heartbeats(topic: str, separator: str) -> bool:
    """Return whether a topic holds heartbeats: a cluster's own, or replicated ones (``a.heartbeats``)."""
    return topic == _HEARTBEATS or topic.endswith(separator + _HEARTBEATS)


class Naming(Protocol):
    """The naming policy of one flow."""

    def downstream(self, topic: str) -> str:
        """The target's name of a source topic."""

    def upstream(self, topic: str) -> str | None:
        """The source's name of a target topic; None when this flow cannot have written it."""

    def comes_from(self, topic: str, alias: str) -> bool:
        """Return whether the name of a source topic says that it was replicated from cluster ``alias``.

        Copying such a topic to ``alias`` would let it circle and its name grow without end.
        """


@dataclass(frozen=True, slots=True)
class PrefixNaming:
    """``orders`` of ``primary`` becomes ``primary.orders`` (MM2's DefaultReplicationPolicy)."""

    source: str
    separator: str = "."

    def downstream(self, topic: str) -> str:
        """The target's name: prefixed with the source's alias."""
        return f"{self.source}{self.separator}{topic}"

    def upstream(self, topic: str) -> str | None:
        """The source's name; None without this flow's prefix."""
        prefix = f"{self.source}{self.separator}"
        return topic[len(prefix) :] if topic.startswith(prefix) and topic != prefix else None

    def comes_from(self, topic: str, alias: str) -> bool:
        """Return whether ``alias`` is a hop in the name, as in ``alias.x.orders`` or ``x.alias.orders``."""
        return alias in topic.split(self.separator)[:-1]


@dataclass(frozen=True, slots=True)
class IdentityNaming:
    """Topics keep their names, so that applications work unchanged after a failover.

    Heartbeats are the exception, as in MM2's IdentityReplicationPolicy: both clusters have their own topic
    ``heartbeats``, and the copy needs another name. MM2 prefixes every name that merely *ends* in
    ``heartbeats``; here ``device-heartbeats`` keeps its name.
    """

    source: str
    separator: str = "."

    def downstream(self, topic: str) -> str:
        """Return the same name; heartbeats are prefixed with the source's alias."""
        return self._prefix.downstream(topic) if self._beats(topic) else topic

    def upstream(self, topic: str) -> str | None:
        """Return the same name; a heartbeats topic has a source name only with this flow's prefix."""
        return self._prefix.upstream(topic) if self._beats(topic) else topic

    def comes_from(self, topic: str, alias: str) -> bool:
        """False except for heartbeats: names do not show the origin; batches carry it in the producer id."""
        return self._beats(topic) and self._prefix.comes_from(topic, alias)

    @property
    def _prefix(self) -> PrefixNaming:
        return PrefixNaming(self.source, self.separator)

    def _beats(self, topic: str) -> bool:
        return is_heartbeats(topic, self.separator)


def broken_promise(naming: Any, source: str, separator: str) -> str:
    """Return what is wrong with a policy, tried with typical names, or an empty text.

    Progress, offsets and failover find a source topic by its copy's name, so every name must map back.

    :param naming: has the methods of :class:`Naming`; their return types are unknown
    """
    owners: dict[str, str] = {}
    for topic in _samples(source, separator):
        copy = naming.downstream(topic)
        if not isinstance(copy, str) or not copy:
            return f"downstream('{topic}') is {copy!r}, not a name"
        back = naming.upstream(copy)
        if back != topic:
            return f"upstream('{copy}') is {back!r}, but '{copy}' is what downstream('{topic}') gave"
        if owners.setdefault(copy, topic) != topic:
            return f"'{owners[copy]}' and '{topic}' would both be called '{copy}'"
        found = naming.comes_from(topic, source)
        if not isinstance(found, bool):
            return f"comes_from('{topic}', '{source}') is {found!r}, neither True nor False"
    return ""


def _samples(source: str, separator: str) -> tuple[str, ...]:
    mark = f"{source}{separator}"
    return ("orders", "Orders", "a.b-c_d", "o", mark + "orders", f"orders{separator}{source}", "heartbeats",
            mark + "heartbeats", f"{mark}{mark}orders", "x" * 40)  # fmt: skip


HEARTBEATS: Final = "heartbeats"
"""Both of MM2's policies call it so on the cluster it is written to, whatever the separator."""
DOT: Final = "."


@dataclass(frozen=True, slots=True)
class Mm2Topics:
    """Names of MM2's topics under one separator (KIP-382, KIP-690).

    MM2 since 3.1 puts ``replication.policy.separator`` into them too, unless
    ``replication.policy.internal.topic.separator.enabled`` is false; before, it was always a dot.

    :param separator: the text between their parts
    """

    separator: str = DOT

    @classmethod
    def of(cls, separator: str, *, enabled: bool = True) -> Mm2Topics:
        """The names under a policy's separator; with ``enabled`` false they keep the dot."""
        return cls(separator if enabled else DOT)

    def offset_syncs(self, alias: str) -> str:
        """Return the topic of offset syncs; the alias is of the cluster on the other side."""
        return f"mm2-offset-syncs{self.separator}{alias}{self.separator}internal"

    def checkpoints(self, source: str) -> str:
        """Return the topic on the target with the checkpoints of a source's groups."""
        return f"{source}{self._checkpoints}"

    def checkpoints_of(self, topic: str) -> str | None:
        """Return the source alias in the name of a checkpoints topic, or None for any other topic."""
        return topic.removesuffix(self._checkpoints) if self.is_checkpoints(topic) else None

    def is_checkpoints(self, topic: str) -> bool:
        """Return whether a topic holds checkpoints of some source."""
        return topic.endswith(self._checkpoints) and topic != self._checkpoints

    def is_internal(self, topic: str) -> bool:
        """Return whether MM2 or one of its Connect workers keeps state there (``isMM2InternalTopic``)."""
        is_workers = topic.startswith("mm2") and topic.endswith(f"{self.separator}internal")
        return is_workers or self.is_checkpoints(topic) or worker_topic(topic) is not None

    @property
    def _checkpoints(self) -> str:
        return f"{self.separator}checkpoints{self.separator}internal"


_WORKER: Final = ("mm2-offsets", "mm2-configs", "mm2-status")


def worker_topic(topic: str) -> tuple[str, str] | None:
    """Kind and source alias of a topic of MM2's Connect workers, as in (``mm2-offsets``, ``primary``).

    They always have dots: only ``offset.storage.topic`` and its kin rename them.
    """
    for kind in _WORKER:
        alias = topic.removeprefix(f"{kind}.").removesuffix(".internal")
        if alias and topic == f"{kind}.{alias}.internal":
            return kind, alias
    return None


def worker_group(source: str) -> str:
    """The group on the target in which the Connect workers of a dedicated MM2 find each other."""
    return f"{source}-mm2"
