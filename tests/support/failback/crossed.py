"""Every position of a topic whose tail was kept: two positions correspond only if the same records follow."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.topic import StateTopic
from drkit.kafka.requests import EARLIEST
from drkit.offset_map.places import PositionReader
from drkit.offsets.translation import Exact, PartitionPosition
from tests.support.failback.pair import Side
from tests.support.flows.compare import Seen

Content = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


def contents(records: Sequence[Seen]) -> list[Content]:
    """Keys and values, in order; several records of a test have no value."""
    return [(s.key, s.value) for s in records]


class Suffixes:
    """What follows each offset of a log, as one number: equal for the same records in any order."""

    def __init__(self, records: Sequence[Seen]) -> None:
        self._offsets = [s.offset for s in records]
        self._sums = [0]
        for content in reversed(contents(records)):
            self._sums.append((self._sums[-1] + hash(content)) % (1 << 61))
        self._sums.reverse()
        self.all = frozenset(self._sums)

    def after(self, offset: int) -> int:
        """The number for the records at or after an offset."""
        return self._sums[bisect_left(self._offsets, offset)]

    def between(self, first: int, end: int) -> bool:
        """Whether a record is between two offsets."""
        return bisect_left(self._offsets, first) < bisect_left(self._offsets, end)


def crossed(side: Side, topic: str) -> int:
    """Compare every offset of both logs in the direction that copies; returns how many have a position.

    A position without an answer has no counterpart: at no offset of the other side the same records follow.
    """
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        known = known_of(state.records)
    theirs, ours = (
        {p: Suffixes(r) for p, r in side.records(c, topic).items()} for c in (side.source, side.target)
    )
    pairs = [known.pair(topic, p) for p in theirs]
    starts = side.offsets(side.source, topic, EARLIEST)  # it connects the source, too
    places = side.ask(
        side.target,
        lambda raw: PositionReader(raw, side.source.alias).look(
            pairs, known.producers, side._raw[side.source.alias]
        ),
    )
    exact = crossings = 0
    for at, place in places.items():
        assert isinstance(place, PartitionPosition), f"{at}: {place}"
        p = at.partition
        crossings += len(place.crossings)
        assert place.frontier is not None
        for offset in range(starts[p], place.frontier + 1):
            first = max((c.source_first for c in place.crossings if c.source_first < offset), default=0)
            exact += _same(place.forward(offset), (theirs[p], ours[p]), (first, offset), f"{at} {offset}")
        for offset in range(place.start, place.end + 1):
            first = max((c.target_first for c in place.crossings if c.target_first < offset), default=0)
            where = f"{at} back from {offset}"
            exact += _same(place.backward(offset), (ours[p], theirs[p]), (first, offset), where)
    assert crossings, "a tail was kept"
    return exact


def _same(found: object, logs: tuple[Suffixes, Suffixes], span: tuple[int, int], where: str) -> int:
    """Compare what follows a position on both sides; returns 1 where it has one.

    :param logs: of the side of the position, and of the other one
    :param span: where the crossing before the position begins, and the position
    """
    (here, there), (first, offset) = logs, span
    if isinstance(found, Exact):
        assert there.after(found.offset) == here.after(offset), f"{where}: {found}"
        return 1
    # With only markers between them, the position is that of the crossing's beginning.
    assert not here.between(first, offset) or here.after(offset) not in there.all, f"{where}: {found}"
    return 0
