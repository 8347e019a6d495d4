"""What a worker process keeps of groups between checkpoint rounds; losing it costs nothing but work. Pure.

Spark gives a task any idle worker, so a group's rounds may take turns in several processes. What a process
remembers of a group is valid only if no other process has looked at the group since: the driver names the
round of the last look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from drkit.checkpoints.shard import NO_ROUND, Shard
from drkit.model import TopicPartition

_OFFSETS: Final = 4
"""Offsets of a group that were seen in earlier rounds."""
_GROUPS: Final = 20_000
"""Most groups of which a process remembers anything."""


@dataclass(slots=True)
class Remembered:
    """Of one group, by source partition."""

    offsets: Mapping[TopicPartition, tuple[int, str]] | None = None
    """What the last look found in copied topics, with the metadata of each; None: unknown whether it still
    holds."""
    seen: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    """Offsets that it had, newest first."""
    emitted: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The offsets of its checkpoints."""
    round: int = NO_ROUND
    """In which this was true last."""

    def newest_first(self, at: TopicPartition, offset: int) -> tuple[int, ...]:
        """Note the current offset; returns it and the earlier ones, all of which the group has passed."""
        seen = self.seen.get(at, ())
        if not seen or offset < seen[0]:
            self.seen[at] = seen = (offset,)  # it went back: what was seen before is no longer its work
        elif seen[0] != offset:
            self.seen[at] = seen = (offset, *seen[: _OFFSETS - 1])
        return seen

    def keep(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Note all of them, and forget the partitions in which the group has none any more."""
        self.offsets = offsets
        for at in self.seen.keys() - offsets.keys():
            del self.seen[at]
            self.emitted.pop(at, None)


@dataclass(slots=True)
class Memory:
    """Of all groups of a flow."""

    groups: dict[str, Remembered] = field(default_factory=dict)
    topic_id: str = ""
    """Id of the topic into which the checkpoints were emitted."""

    def begin(self, shard: Shard) -> None:
        """Forget what is not true any more, before a round."""
        if self.topic_id != shard.topic_id:
            self.topic_id = shard.topic_id
            for group in self.groups.values():
                group.emitted = {}
        for name, last in zip(shard.groups, shard.last or [NO_ROUND] * len(shard.groups), strict=True):
            group = self.groups.pop(name) if name in self.groups else Remembered()
            self.groups[name] = group  # the last one looked at is the last one forgotten
            known = last != NO_ROUND and last == group.round
            if shard.last and not known:
                group.emitted = {}
            if not known:
                group.offsets = None
            group.round = NO_ROUND
        while len(self.groups) > max(_GROUPS, len(shard.groups)):
            del self.groups[next(iter(self.groups))]

    def end(self, shard: Shard) -> None:
        """The round has done all it had to do."""
        for name in shard.groups:
            self.groups[name].round = shard.round
