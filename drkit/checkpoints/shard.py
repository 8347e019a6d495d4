"""What a checkpoint task receives and reports: plain data that travels as JSON through Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
import zlib

from pydantic import PlainSerializer

from drkit.flow_state.codec.record import TaskData
from drkit.flow_state.copied_topics import CopiedTopics

NO_ROUND: Final = -1
"""Replaces a round's number where no round is meant."""
SHOWN: Final = 50
"""Refusals reported by name; all are counted."""
MOST_REMEMBERED: Final = 20_000
"""Maximum number of groups that a process remembers, however many the flow has."""
Refusal = tuple[str, str, str, str]
"""Group, source partition, verdict and reason of a position that was not written."""


def _in_pairs(known: CopiedTopics) -> list[Any]:
    others: Sequence[Mapping[Any, Any]] = known[2:]
    return [known.topics, known.producers, *([*each.items()] for each in others)]


@dataclass(frozen=True, slots=True)
class Shard(TaskData):
    """Groups for one task, and all it must know of the flow. No secret is in here."""

    number: int
    source: str
    """Alias of the source; the mark of every written offset contains it."""
    groups: tuple[str, ...]
    known: Annotated[CopiedTopics, PlainSerializer(_in_pairs)]
    topic: str = ""
    """Where checkpoints go; empty: none are wanted."""
    sync: bool = False
    """Positions are written on the target, not only checkpoints."""
    refresh_ms: int = 86_400_000
    promoted: frozenset[str] = frozenset()
    """Topics of the target that producers own."""
    gone: tuple[str, ...] = ()
    """Groups that are no longer on the source and are to be deleted here too."""
    recorded: tuple[tuple[str, str, int], ...] = ()
    """Group, target topic and partition of checkpoints whose group or topic seems to be gone."""
    topic_id: str = ""
    """Id of the topic of checkpoints: another one of the same name has none of them yet."""
    round: int = NO_ROUND
    last: tuple[int, ...] = ()
    """Which round looked at each of the groups last; empty: always this process."""
    quick: frozenset[str] = frozenset()
    """Groups that are done with when the source has what it had at the last look."""
    remembered: int = MOST_REMEMBERED
    """Number of groups that a process remembers: at most those of the flow, so a deleted one is forgotten."""


@dataclass(slots=True)
class ShardReport(TaskData):
    """What became of a shard in one round."""

    number: int
    round: int = NO_ROUND
    groups: int = 0
    positions: int = 0
    """Committed offsets of these groups in copied partitions."""
    emitted: int = 0
    """Checkpoints written because they changed."""
    emitted_groups: list[str] = field(default_factory=list)
    """Whose these are."""
    latency_ms: int = 0
    """From the reading of the groups' offsets until the checkpoints were durable."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """How many offsets each line of the guard's table decided; empty when nothing was synced."""
    synced: bool = False
    """Positions were written, so there are verdicts."""
    positions_of: dict[str, int] = field(default_factory=dict)
    """The same by group, for every group that was looked at."""
    verdicts_of: dict[str, dict[str, int]] = field(default_factory=dict)
    same: list[str] = field(default_factory=list)
    """Groups of which the source had nothing new, so that was all that was looked at."""
    again: list[str] = field(default_factory=list)
    """Groups that the next round has to look at, whether they move or not."""
    refused: list[Refusal] = field(default_factory=list)
    """Some that were not written."""
    unread: dict[str, int] = field(default_factory=dict)
    """Groups whose offsets the source did not return, and the error code: Kafka's, or a client's own one."""
    deleted: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    """Groups whose checkpoints were taken back."""
    started_ms: int = 0
    """When the round began for this shard, in milliseconds since 1970."""
    seconds: float = 0.0
    error: str = ""
    """Why the round broke off; the next one starts over."""


def shards_of(groups: list[str], per_shard: int) -> list[tuple[str, ...]]:
    """Groups spread evenly; a group stays in its shard while their number does."""
    count = max(1, -(-len(groups) // per_shard))
    out: list[list[str]] = [[] for _ in range(count)]
    for group in groups:
        out[zlib.crc32(group.encode()) % count].append(group)
    return [tuple(sorted(names)) for names in out if names]
