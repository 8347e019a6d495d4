"""The proof of a translation: every offset of a partition, both ways, against what consumers read."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

from drkit.flow_state.copied_topics import CopiedPartition, Producers
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import Unavailable
from drkit.offsets.translation import Exact, PartitionPosition
from tests.support.flows.compare import Seen, not_foreign, read
from tests.support.flows.flow import Flow

Ids = tuple[UUID, UUID]
"""Of a topic on source and target."""


def ids_of(flow: Flow, topic: str) -> Ids:
    return flow.topic(flow.source, topic).topic_id, flow.topic(flow.target, topic).topic_id


def places(
    flow: Flow, topic: str, *, source_lives: bool = True, ids: Ids | None = None
) -> dict[int, PartitionPosition | Unavailable]:
    """What one who has only the two clusters says of all partitions.

    :param ids: as the flow's state on the target has them; None asks the source too
    """
    source_id, target_id = ids or ids_of(flow, topic)
    wanted = [
        CopiedPartition(TopicPartition(topic, p), TopicPartition(topic, p), source_id, target_id)
        for p in flow.topic(flow.target, topic).leaders
    ]
    producers = Producers(flow.producer.id, frozenset({flow.producer.id}))

    async def look(target):
        source = flow._raw[flow.source.alias] if source_lives else None
        return await PositionReader(target, flow.source.alias).look(wanted, producers, source)

    return {at.partition: p for at, p in flow.ask(flow.target, look).items()}


def first(records: Sequence[Seen], offset: int) -> Seen | None:
    """What a consumer reads first from an offset on."""
    i = bisect_left(records, offset, key=lambda s: s.offset)
    return records[i] if i < len(records) else None


def every_offset(flow: Flow, topic: str, *, source_lives: bool = True) -> int:
    """Check all offsets of the source up to the frontier, and all of the target; returns how many."""
    found = places(flow, topic, source_lives=source_lives)
    on_source, on_target = read(flow.source, topic), read(flow.target, topic)
    starts = flow.starts(flow.source, topic)
    checked = 0
    for p, place in found.items():
        assert isinstance(place, PartitionPosition), f"{topic}-{p}: {place}"
        checked += exact_both_ways(place, on_source[p], on_target[p], starts[p], f"{topic}-{p}")
    return checked


def exact_both_ways(
    place: PartitionPosition, on_source: Sequence[Seen], on_target: Sequence[Seen], start: int, where: str
) -> int:
    """Every offset up to the frontier leads to the record that the source would give; and back."""
    assert place.frontier is not None
    copied = not_foreign(on_target)
    # A transaction's marker may have come since: it moves the end, and nothing else.
    assert place.end >= place.copied_end, where
    assert not copied or place.copied_end == copied[-1].offset + 1, f"{where}: {place}, {copied[-1]}"
    assert [c.content for c in copied] == [s.content for s in on_source[: len(copied)]], where
    _forward(place, on_source, on_target, start, where)
    original = {c.offset: s for c, s in zip(copied, on_source, strict=False)}
    _backward(place, on_source, copied, original, where)
    return place.frontier - start + place.end


def same_behind(
    place: PartitionPosition,
    on_source: Sequence[Seen],
    on_target: Sequence[Seen],
    start: int,
    given_up: int,
    where: str,
) -> int:
    """For every offset of the source the records after it and after its position are the same.

    :param start: the first offset to check
    :param given_up: source offset before which there may be no position
    :returns: how many offsets have one
    """
    wanted, found = [s.content for s in on_source], [s.content for s in on_target]
    common = 0
    while common < min(len(wanted), len(found)) and wanted[-1 - common] == found[-1 - common]:
        common += 1
    assert place.frontier is not None, where
    exact = 0
    for upstream in range(start, max(place.frontier, place.source_end or 0) + 1):
        answer = place.forward(upstream)
        if isinstance(answer, Unavailable):
            assert upstream < given_up, f"{where} {upstream}: {answer}"
            continue
        left, there = _after(on_source, upstream), _after(on_target, answer.offset)
        assert left == there <= common, (
            f"{where}: {upstream} → {answer}: {left} records follow, {there} there"
        )
        exact += 1
    return exact


def _after(records: Sequence[Seen], offset: int) -> int:
    return len(records) - bisect_left(records, offset, key=lambda s: s.offset)


def _forward(
    place: PartitionPosition, on_source: Sequence[Seen], on_target: Sequence[Seen], start: int, where: str
) -> None:
    assert place.frontier is not None
    for upstream in range(start, place.frontier + 1):
        answer = place.forward(upstream)
        assert isinstance(answer, Exact), f"{where} {upstream}: {answer}"
        wanted = first(on_source, upstream)
        got = first(on_target, answer.offset)
        if wanted is not None and wanted.offset < place.frontier:
            assert got is not None, f"{where}: {upstream} → {answer}, after all records"
            assert got.content == wanted.content, f"{where}: {upstream} → {answer}"
        else:
            assert answer.offset >= place.copied_end, f"{where}: {upstream} → {answer}"
            assert answer.offset <= place.end


def _backward(
    place: PartitionPosition,
    on_source: Sequence[Seen],
    copied: Sequence[Seen],
    original: dict[int, Seen],
    where: str,
) -> None:
    assert place.frontier is not None
    for downstream in range(place.end + 1):
        back = place.backward(downstream)
        assert isinstance(back, Exact), f"{where} back from {downstream}: {back}"
        copy = first(copied, downstream)
        got = first(on_source, back.offset)
        if copy is not None:
            assert got is original[copy.offset], f"{where}: back from {downstream} → {back}"
        else:
            assert back.offset == place.frontier
            assert got is None or got.offset >= place.frontier


def exact_when_alone(
    found: dict[int, PartitionPosition | Unavailable],
    on_source: dict[int, list[Seen]],
    on_target: dict[int, list[Seen]],
    starts: dict[int, int],
    ends: dict[int, int],
    topic: str,
) -> Counter[str]:
    """What the target alone said, against the source as it came back: every offset of every partition.

    :param ends: of the source, so that offsets which the copy never reached are looked at too
    :returns: how many offsets are ``exact``, how many were ``not copied``, and how many have no answer, by
        its reason
    """
    counted = Counter[str]()
    for p, place in found.items():
        where = f"{topic}-{p}"
        if isinstance(place, Unavailable):
            counted[place.reason] += ends[p] - starts[p] + 1
            continue
        if place.frontier is None:  # then there must be nothing
            assert not not_foreign(on_target[p]), f"{where}: copied records, and no frontier"
            counted["not copied"] += ends[p] - starts[p] + 1
            continue
        exact_both_ways(place, on_source[p], on_target[p], starts[p], where)
        counted["exact"] += place.frontier - starts[p] + 1
        _behind_the_copy(place, range(place.frontier + 1, ends[p] + 1), where)
        counted["not copied"] += max(0, ends[p] - place.frontier)
    return counted


def _behind_the_copy(place: PartitionPosition, offsets: Iterable[int], where: str) -> None:
    """What was never copied begins at the end, and is said."""
    for upstream in offsets:
        answer = place.forward(upstream)
        assert isinstance(answer, Exact), f"{where} {upstream}: {answer}"
        assert answer.offset >= place.copied_end, f"{where}: {upstream} → {answer}"
        assert "after the last copied record" in answer.note, f"{where}: {upstream} → {answer}"
