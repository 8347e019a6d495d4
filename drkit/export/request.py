"""What is asked of an export, what comes of it, and the pieces that tasks get. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeVar

from drkit.export.manifest import Manifest, TailRange
from drkit.model import TopicPartition

Progress = Callable[[str], None]
"""Gets a sentence from time to time."""
NO_CONF: Final[Mapping[str, str]] = {}
NO_TERMS: Final[Mapping[str, int]] = {}
T = TypeVar("T")
_LEAST: Final = 50_000
_MOST: Final = 2_000_000
PER_SLOT: Final = 6
"""Shares for each slot of Spark: some are quicker than others, and progress is reported by shares."""
_EVERYWHERE: Final[Mapping[TopicPartition, int]] = {}


class ExportRequest(NamedTuple):
    """Where to export to, and how."""

    to: str
    """A folder, or a URL of one as pyarrow knows them: ``s3://``, ``gs://``, ``hdfs://``."""
    run_id: str
    """The export's own folder below `to`; the caller holds the lock on this run."""
    format: str = "parquet"
    """``parquet`` or ``jsonl``."""
    master: str | None = None
    """Of Spark; None: this machine."""
    conf: Mapping[str, str] = NO_CONF
    """Settings of Spark."""
    terms: Mapping[str, int] = NO_TERMS
    """Topic → term of the failover that left its records out, for the manifest."""


class Exported(NamedTuple):
    """A complete export."""

    path: str
    """Of the manifest."""
    sha256: str
    """Of the manifest; what the journal keeps."""
    manifest: Manifest
    is_reused: bool = False
    """It was complete before, and its files still are what they were."""
    peak_memory_bytes: int = 0
    """Of the largest task."""


class CopiedBack(NamedTuple):
    """Which records of the old primary came from the new one: an export names them, and leaves them out."""

    ids: frozenset[int] = frozenset()
    """Their producers."""
    since: Mapping[TopicPartition, int] = _EVERYWHERE
    """By partition, the offset before which records of every producer are exported; without one: of none."""

    def split(self, tails: Iterable[TailRange]) -> Iterator[TailRange]:
        """The ranges, cut where records begin to be left out."""
        for tail in tails:
            since = self._since(tail)
            if tail.first < since < tail.end:
                yield tail._replace(end=since)
                yield tail._replace(first=since)
            else:
                yield tail

    def left_out(self, piece: TailRange) -> frozenset[int]:
        """The producers whose records are left out in a range of :meth:`split`, or in a part of one."""
        return self.ids if piece.first >= self._since(piece) else frozenset()

    def _since(self, tail: TailRange) -> int:
        return self.since.get(TopicPartition(tail.topic, tail.partition), tail.first)


def cut(tails: Iterable[TailRange], slots: int) -> Iterator[TailRange]:
    """Pieces of about equal numbers of offsets, several for each slot, those of a partition in order."""
    tails = list(tails)
    total = sum(tail.end - tail.first for tail in tails)
    step = min(_MOST, max(_LEAST, -(-total // max(1, slots * PER_SLOT))))
    for tail in tails:
        for first in range(tail.first, tail.end, step):
            yield tail._replace(first=first, end=min(first + step, tail.end))


def shares(weights: Iterable[tuple[int, T]], most: int) -> list[list[T]]:
    """The items, by their weights, in at most `most` lists of about equal weight, none of them empty."""
    ordered = sorted(weights, key=lambda each: -each[0])
    found: list[list[T]] = [[] for _ in range(min(most, len(ordered)))]
    lightest = [(0, number) for number in range(len(found))]
    for weight, thing in ordered:
        had, number = heappop(lightest)
        found[number].append(thing)
        # One weighs something whatever its size: opening it does.
        heappush(lightest, (had + weight + 1, number))
    return found
