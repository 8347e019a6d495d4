"""The request and the result of an export, and its division into tasks. Pure."""

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
    """The folder and the options of an export."""

    to: str
    """A folder, or a URL of one as pyarrow knows them: ``s3://``, ``gs://``, ``hdfs://``."""
    run_id: str
    """The export's own folder below `to`; the caller holds the lock on this run."""
    format: str = "parquet"
    """``parquet`` or ``jsonl``."""
    master: str | None = None
    """Spark's master, or None for this machine."""
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
    """True if it was complete before, and its files are unchanged."""
    peak_memory_bytes: int = 0
    """Of the largest task."""


class CopiedBack(NamedTuple):
    """The records of the old primary that came from the new one: an export notes them as holes."""

    ids: frozenset[int] = frozenset()
    """Their producers."""
    since: Mapping[TopicPartition, int] = _EVERYWHERE
    """Partition → offset before which all records are exported; a partition without one has no such part."""

    def split(self, tails: Iterable[TailRange]) -> Iterator[TailRange]:
        """Yield the ranges, cut where records begin to be left out."""
        for tail in tails:
            since = self._since(tail)
            if tail.first < since < tail.end:
                yield tail._replace(end=since)
                yield tail._replace(first=since)
            else:
                yield tail

    def left_out(self, piece: TailRange) -> frozenset[int]:
        """Return the producers whose records are left out in a range of :meth:`split`, or a part of one."""
        return self.ids if piece.first >= self._since(piece) else frozenset()

    def _since(self, tail: TailRange) -> int:
        return self.since.get(TopicPartition(tail.topic, tail.partition), tail.first)


def cut(tails: Iterable[TailRange], slots: int) -> Iterator[TailRange]:
    """Yield pieces of about equal numbers of offsets, several per slot, those of a partition in order."""
    tails = list(tails)
    total = sum(tail.end - tail.first for tail in tails)
    step = min(_MOST, max(_LEAST, -(-total // max(1, slots * PER_SLOT))))
    for tail in tails:
        for first in range(tail.first, tail.end, step):
            yield tail._replace(first=first, end=min(first + step, tail.end))


def shares(weights: Iterable[tuple[int, T]], most: int) -> list[list[T]]:
    """Return the items, by their weights, in at most `most` lists of about equal weight, none empty."""
    ordered = sorted(weights, key=lambda each: -each[0])
    lists: list[list[T]] = [[] for _ in range(min(most, len(ordered)))]
    lightest = [(0, number) for number in range(len(lists))]
    for weight, thing in ordered:
        had, number = heappop(lightest)
        lists[number].append(thing)
        # Even an empty item has a cost: it is opened.
        heappush(lightest, (had + weight + 1, number))
    return lists
