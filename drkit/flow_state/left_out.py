"""Whose records a flow does not copy, from where to where. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing

_NO_CUTS: Final[Mapping[TopicPartition, int]] = {}


class KeptTail(NamedTuple):
    """A tail that the target has kept, as it was appended to the source after the cut: it is left out."""

    end: int
    """Source offset after its last record."""
    ids: frozenset[int]
    """The producers that wrote it, and nothing else."""


NONE_KEPT: Final[Mapping[TopicPartition, KeptTail]] = {}


class LeftOut(NamedTuple):
    """Whose records a flow does not copy, and from where on it copies those as well."""

    ids: frozenset[int] = frozenset()
    """Producer ids of flows in the other direction."""
    cuts: Mapping[TopicPartition, int] = _NO_CUTS
    """Source partition → its cut: from there on nothing is left out."""
    rebuilt: Container[TopicPartition] = frozenset()
    """Source partitions of which nothing is left out before the cut either."""
    kept: Mapping[TopicPartition, KeptTail] = NONE_KEPT
    """Source partition → a tail after its cut that is left out."""

    def ids_at(self, at: TopicPartition, offset: int) -> frozenset[int]:
        """The producers whose batches at a source offset are left out."""
        cut, kept = self.cuts.get(at), self.kept.get(at)
        found = self.ids_before_cut(at) if cut is None or offset < cut else frozenset()
        return found | kept.ids if kept is not None and offset < kept.end else found

    def ids_before_cut(self, at: TopicPartition) -> frozenset[int]:
        """The producers whose batches before the cut are left out."""
        return frozenset() if at in self.rebuilt else self.ids

    def divides(self, at: TopicPartition, start: int, end: int) -> int | None:
        """The first offset between two on the source from which on others are left out; None: none is."""
        cut, kept = self.cuts.get(at) if at not in self.rebuilt else None, self.kept.get(at)
        borders = (cut, kept.end if kept is not None else None)
        return min((b for b in borders if b is not None and start < b < end), default=None)

    def parts(self, at: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int, frozenset[int]]]:
        """Yield a source range in parts, each with the producers that are left out in it."""
        while start < end:
            stop = self.divides(at, start, end) or end
            yield start, stop, self.ids_at(at, start)
            start = stop


def tail_end_of(crossings: Iterable[Crossing]) -> int:
    """Target offset after the last tail among the copies; 0: no such tail."""
    return max((c.target_end for c in crossings), default=0)


def kept_ids(kept: Mapping[TopicPartition, KeptTail]) -> frozenset[int]:
    """All producers that appended tails to the source which the target has kept."""
    return frozenset[int]().union(*(each.ids for each in kept.values()))
