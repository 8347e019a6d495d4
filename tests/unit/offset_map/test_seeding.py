"""Which records begin a partition after a turn, and where none may be written."""

from __future__ import annotations

from uuid import UUID

import pytest

from drkit.errors import Failed, Refused
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.records import CutRecord
from drkit.kafka import codes
from drkit.kafka.requests import ProducerState, TopicMetadata
from drkit.model import TopicPartition
from drkit.offset_map.bucket import parts
from drkit.offset_map.look import Look
from drkit.offset_map.seeding import NotReady, SeededPartition, _records, cut_after, refuse_look
from drkit.offsets import History, Intent, Mark, Pack, PartitionMap, SegmentMap
from drkit.offsets.map_record import MapRecord, Mode, Turn
from drkit.offsets.seed import CopyEnd, seed_after, seed_of_emptied
from tests.support.errors import coded

AT = TopicPartition("orders", 0)
OLD, NEW = History(7, 3), History(9, 0)
SEED = seed_after(SegmentMap.of([(0, 0, 60), (61, 60, 40)]), 100, CopyEnd(101, 103), 0)
LOOK = Look(0, end=103, leader_epoch=5)


def known(history: History | None = OLD) -> PartitionMap:
    """The map of the direction's earlier life."""
    found = PartitionMap()
    if history is not None:
        found.apply(Intent(Mode.LIVE, 1, history, 0, 0, 0, -1, ((0, 50),)))
        found.apply(Mark(1, history, 50, 50, 50, 50, -1, live=True))
    return found


def begun(state: PartitionMap, to: History = NEW, look: Look = LOOK, reign: int = 4) -> list[MapRecord]:
    records = _records(AT, SEED, look, to, state, reign)
    for record in records:
        state.apply(record)
    return records


def producer(history: History) -> ProducerState:
    return ProducerState(history.epoch, 9, -1)


@pytest.mark.parametrize("earlier", [OLD, None])
def test_a_pack_and_a_turn(earlier: History | None) -> None:
    state = known(earlier)
    pack, turn = begun(state)
    assert isinstance(pack, Pack)
    assert isinstance(turn, Turn)
    assert (turn.history, turn.ended, turn.reign, turn.target_epoch) == (NEW, earlier or History(9, -1), 4, 5)
    assert (turn.upstream, turn.downstream, turn.leader_epoch) == (101, 103, -1)
    assert state.segments.triples() == SEED.segments.triples()
    assert state.history == NEW


def test_repeated_nothing_is_written() -> None:
    """Also once records were copied, whether the first one continues the last segment or not."""
    for upstream, downstream in ((101, 103), (140, 103)):
        state = known()
        begun(state)
        assert not begun(state)
        state.apply(Intent(Mode.LIVE, 2, NEW, 0, downstream, 100, 2, ((upstream, 10),)))
        state.apply(
            Mark(2, NEW, upstream + 10, downstream + 10, downstream + 10, 10, 2, target_epoch=5, live=True)
        )
        grown = Look(0, end=downstream + 10, leader_epoch=5, producers={NEW.producer_id: producer(NEW)})
        assert not begun(state, look=grown)


PAIR = CopiedPartition(AT, AT, UUID(int=1), UUID(int=2))


def test_the_record_of_the_cuts_says_what_was_emptied_and_what_is_copied_again() -> None:
    rebuilt = SeededPartition(PAIR, seed_of_emptied(CopyEnd(7, 500), 7), 1003, 500)
    trimmed = SeededPartition(PAIR, seed_of_emptied(CopyEnd(1003, 500), 7), 1003, 500)
    ids = PAIR.source_id, PAIR.target_id
    assert cut_after(None, rebuilt) == CutRecord(*ids, {0: 1003}, {0: 500}, {0: 7})
    assert cut_after(cut_after(None, rebuilt), trimmed) == CutRecord(*ids, {0: 1003}, {0: 500})


@pytest.mark.parametrize(("end", "kept"), [(500, {0: 500}), (499, {})])
def test_what_was_emptied_stays_so_unless_the_log_was_lost_since(end: int, kept: dict[int, int]) -> None:
    """An offset after the end would delete what is copied from now on."""
    before = CutRecord(PAIR.source_id, PAIR.target_id, {0: 3}, {0: 500, 1: 9}, {0: 1})
    later = SeededPartition(PAIR, seed_after(SegmentMap(), end, CopyEnd(2000, end), None))
    found = cut_after(before, later)
    assert (found.skip_from, found.emptied, found.rebuilt) == ({0: 2000}, {**kept, 1: 9}, {})
    other = later._replace(partition=PAIR._replace(target_id=UUID(int=9)))
    assert cut_after(before, other).emptied == {}, "it was of another topic"


def test_the_last_segment_of_a_seed_may_grow() -> None:
    seed = seed_after(SegmentMap.of([(0, 0, 100)]), 100, CopyEnd(100, 100), 0)
    state = PartitionMap()
    for record in [*parts(seed.segments, 100), *_records(AT, seed, Look(0, end=100), NEW, PartitionMap(), 1)]:
        state.apply(record)
    state.apply(Intent(Mode.LIVE, 2, NEW, 0, 100, 100, 2, ((100, 10),)))
    state.apply(Mark(2, NEW, 110, 110, 110, 10, 2, live=True))
    assert state.segments.triples() == [(0, 0, -1)]
    assert not _records(AT, seed, Look(0, end=110), NEW, state, 2)


def test_repeated_nothing_is_written_also_where_a_task_has_ended_the_seed_s_history() -> None:
    """A task that finds another one's claims fences them, and continues in the next epoch of the id."""
    state, later = known(), History(NEW.producer_id, 1)
    begun(state)
    state.apply(Turn(3, 5, NEW, -1, later, 101, 104, 100, -1, 5))
    look = Look(0, end=104, leader_epoch=5, producers={NEW.producer_id: producer(later)})
    assert not begun(state, look=look)


def test_a_map_that_has_begun_otherwise_is_refused() -> None:
    state = known(NEW)
    with pytest.raises(Refused, check=coded("producer_id_not_new")):
        begun(state)


@pytest.mark.parametrize("look", [LOOK, Look(0, end=103, producers={9: producer(History(9, 32767))})])
def test_an_id_that_was_used_is_refused(look: Look) -> None:
    state = known()
    if look is LOOK:
        state.ended.add(NEW)
    with pytest.raises(Refused, check=coded("producer_id_not_new")):
        begun(state, look=look)


@pytest.mark.parametrize("end", [102, 104])
def test_another_end_than_that_of_the_seed_is_refused(end: int) -> None:
    with pytest.raises(Refused, check=coded("seed_end_differs")):
        begun(known(), look=Look(0, end=end))


OTHER = UUID(int=3)


@pytest.mark.parametrize(
    ("topic", "look", "raised"),
    [
        (TopicMetadata(0, UUID(int=2), {}), LOOK, None),
        (TopicMetadata(0, UUID(int=2), {}), Look(codes.LEADER_NOT_AVAILABLE), NotReady),
        (TopicMetadata(codes.UNKNOWN_TOPIC_OR_PARTITION, UUID(int=0), {}), LOOK, NotReady),
        (TopicMetadata(0, UUID(int=2), {}), Look(codes.REQUEST_TIMED_OUT), Failed),
        (TopicMetadata(0, OTHER, {}), LOOK, Failed),
    ],
)
def test_a_leader_on_its_way_is_waited_for_and_another_topic_is_not(
    topic: TopicMetadata, look: Look, raised: type[Failed] | None
) -> None:
    copy = CopiedPartition(AT, AT, UUID(int=1), UUID(int=2))
    if raised is None:
        refuse_look(copy, topic, look, "s")
        return
    with pytest.raises(Failed, check=coded("copy_unreadable")) as caught:
        refuse_look(copy, topic, look, "s")
    assert type(caught.value) is raised
    assert "drkit reprotect --resume" in caught.value.hint
