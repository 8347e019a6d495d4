"""What a checkpoint task receives and reports: plain data that travels as JSON through Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
import json
from typing import Any, Final
from uuid import UUID
import zlib

from drkit.flow_state.copied_topics import CopiedTopics, Producers
from drkit.flow_state.left_out import KeptTail
from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing

NO_ROUND: Final = -1
"""Replaces a round's number where no round is meant."""
SHOWN: Final = 50
"""Refusals reported by name; all are counted."""
Refusal = tuple[str, str, str, str]
"""Group, source partition, verdict and reason of a position that was not written."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Groups for one task, and all it must know of the flow. No secret is in here."""

    number: int
    source: str
    """Alias of the source; the mark of every written offset contains it."""
    groups: tuple[str, ...]
    known: CopiedTopics
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

    def to_json(self) -> str:
        """The shard as JSON."""
        producers = self.known.producers
        return json.dumps(
            {
                "number": self.number,
                "source": self.source,
                "groups": self.groups,
                "topics": {n: (t, str(a), str(b)) for n, (t, a, b) in self.known.topics.items()},
                "producers": (
                    producers.current,
                    sorted(producers.own),
                    sorted(producers.left_out),
                    producers.map_id,
                ),
                "cuts": [(*at, offset) for at, offset in self.known.cuts.items()],
                "rebuilt": [(*at, offset) for at, offset in self.known.rebuilt.items()],
                "emptied": [(*at, offset) for at, offset in self.known.emptied.items()],
                "crossings": [(*at, *each) for at, some in self.known.crossings.items() for each in some],
                "kept": [(*at, kept.end, sorted(kept.ids)) for at, kept in self.known.kept.items()],
                "topic": self.topic,
                "sync": self.sync,
                "refresh_ms": self.refresh_ms,
                "promoted": sorted(self.promoted),
                "gone": self.gone,
                "recorded": self.recorded,
                "topic_id": self.topic_id,
                "round": self.round,
                "last": self.last,
                "quick": sorted(self.quick),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Shard:
        """Read back what :meth:`to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        current, own, left_out, map_id = raw.pop("producers")
        topics = {n: (t, UUID(a), UUID(b)) for n, (t, a, b) in raw.pop("topics").items()}
        producers = Producers(current, frozenset(own), frozenset(left_out), map_id)
        offsets = (
            {TopicPartition(name, number): offset for name, number, offset in raw.pop(key)}
            for key in ("cuts", "rebuilt", "emptied")
        )
        crossings: dict[TopicPartition, tuple[Crossing, ...]] = {}
        for name, number, *each in raw.pop("crossings"):
            at = TopicPartition(name, number)
            crossings[at] = (*crossings.get(at, ()), Crossing(*each))
        kept = {TopicPartition(t, p): KeptTail(end, frozenset(ids)) for t, p, end, ids in raw.pop("kept")}
        cuts, rebuilt, emptied = offsets
        raw["known"] = CopiedTopics(topics, producers, cuts, rebuilt, emptied, crossings=crossings, kept=kept)
        raw |= {name: tuple(raw[name]) for name in ("groups", "gone", "last")}
        raw["recorded"] = tuple((group, topic, number) for group, topic, number in raw["recorded"])
        raw |= {name: frozenset(raw[name]) for name in ("promoted", "quick")}
        return cls(**raw)


@dataclass(slots=True)
class ShardReport:
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

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ShardReport:
        """Read back what :meth:`to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        raw["refused"] = [(g, at, verdict, why) for g, at, verdict, why in raw["refused"]]
        return cls(**raw)


def shards_of(groups: list[str], per_shard: int) -> list[tuple[str, ...]]:
    """Groups spread evenly; a group stays in its shard while their number does."""
    count = max(1, -(-len(groups) // per_shard))
    out: list[list[str]] = [[] for _ in range(count)]
    for group in groups:
        out[zlib.crc32(group.encode()) % count].append(group)
    return [tuple(sorted(names)) for names in out if names]
