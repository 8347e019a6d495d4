"""Every position of a topic whose tail was kept: the same place if, and only if, the same records follow."""

from __future__ import annotations

from collections import Counter
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


def crossed(side: Side, topic: str) -> int:
    """Compare every offset of both logs in the direction that copies; returns how many have a position.

    A position without an answer has no counterpart: at no offset of the other side the same records follow.
    """
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        known = known_of(state.records)
    theirs, ours = side.records(side.source, topic), side.records(side.target, topic)
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
            span = first, offset
            exact += _same(place.forward(offset), (theirs[p], ours[p]), span, f"{at} {offset}")
        for offset in range(place.start, place.end + 1):
            first = max((c.target_first for c in place.crossings if c.target_first < offset), default=0)
            span = first, offset
            exact += _same(place.backward(offset), (ours[p], theirs[p]), span, f"{at} back from {offset}")
    assert crossings, "a tail was kept"
    return exact


def _same(
    found: object, logs: tuple[Sequence[Seen], Sequence[Seen]], span: tuple[int, int], where: str
) -> int:
    """Compare what follows a position on both sides; returns 1 where it has one.

    :param logs: of the side of the position, and of the other one
    :param span: where the crossing before the position begins, and the position
    """
    (here, there), (first, offset) = logs, span
    wanted = _after(here, offset)
    if isinstance(found, Exact):
        assert _after(there, found.offset) == wanted, f"{where}: {found}"
        return 1
    if not any(first <= s.offset < offset for s in here):
        return 0  # nothing but markers is before it: the place is that of the beginning
    ends = (s.offset + 1 for s in there[-1:])
    assert all(_after(there, o) != wanted for o in (*(s.offset for s in there), *ends)), f"{where}: {found}"
    return 0


def _after(records: Sequence[Seen], offset: int) -> Counter[Content]:
    return Counter(contents([s for s in records if s.offset >= offset]))
