"""The cuts of a flow: where its topics began to be copied after a turn."""

from __future__ import annotations

from dataclasses import replace
import json
from uuid import UUID

from drkit.checkpoints.shard import Shard
from drkit.checkpoints.work import Terms
from drkit.flow_state.copied_topics import (
    CopiedTopics,
    Producers,
    known_of,
    written_of,
)
from drkit.flow_state.left_out import KeptTail, LeftOut, kept_ids
from drkit.flow_state.records import CutRecord, GenerationRecord, WrittenRecord
from drkit.flow_state.state import FlowState
from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing

IDS = UUID(int=1), UUID(int=2)
AT = TopicPartition("orders", 0)


def state(cut: CutRecord) -> FlowState:
    topic = GenerationRecord("orders", *IDS)
    return FlowState.of(
        {b"topic/orders": topic.encode(), b"cut/orders": cut.encode(), b"cut/gone": cut.encode()}
    )


def test_a_partition_has_the_cut_of_its_own_topic() -> None:
    found = state(CutRecord(*IDS, {}).with_cut(0, 1003).with_cut(2, 0))
    assert known_of(found).cuts == {AT: 1003, TopicPartition("orders", 2): 0}
    known = known_of(found)
    assert [known.pair("orders", p).skip_from for p in range(3)] == [1003, None, 0]
    assert [known.pair("orders", 0).leaves_out(offset) for offset in (1002, 1003)] == [True, False]
    assert known.pair("orders", 1).leaves_out(5_000)


def test_ids_of_the_other_flow_count_from_the_cut_on() -> None:
    left_out = LeftOut(frozenset({7}), {AT: 1003})
    assert [left_out.ids_at(AT, offset) for offset in (1002, 1003)] == [{7}, frozenset()]
    assert left_out.ids_at(TopicPartition("orders", 1), 5_000) == {7}, "it has no cut"
    assert left_out.divides(AT, 1000, 1010) == 1003
    assert [left_out.divides(AT, *span) for span in ((1003, 1010), (1000, 1003))] == [None, None]


def test_of_a_rebuilt_partition_nothing_is_left_out() -> None:
    """It holds what this flow's opposite copied there before the turn, and that is wanted again."""
    found = state(CutRecord(*IDS, {}).with_cut(0, 1003, emptied=500, rebuilt=7).with_cut(1, 60, emptied=40))
    known = known_of(found)
    rebuilt, trimmed, other = (known.pair("orders", p) for p in range(3))
    assert (rebuilt.skip_from, rebuilt.began_at, rebuilt.emptied) == (1003, 7, 500)
    assert (trimmed.skip_from, trimmed.began_at, trimmed.emptied) == (60, 60, 40)
    assert (other.skip_from, other.began_at, other.emptied) == (None, None, 0)
    assert [pair.leaves_out(10) for pair in (rebuilt, trimmed, other)] == [False, True, True]
    assert (rebuilt.began_at, known_of(found).emptied[AT]) == (7, 500)
    left_out = known._replace(producers=known.producers._replace(left_out=frozenset({7}))).left_out
    assert [left_out.ids_at(AT, offset) for offset in (7, 1002, 1003)] == [frozenset()] * 3
    assert left_out.divides(AT, 1000, 1010) is None, "the same is left out on both sides: nothing"
    assert left_out.ids_before_cut(AT) == frozenset()
    assert left_out.ids_before_cut(trimmed.source) == {7}


def test_of_a_later_topic_of_the_same_name_a_cut_says_nothing() -> None:
    assert known_of(state(CutRecord(UUID(int=9), IDS[1], {0: 1003}))).cuts == {}
    assert known_of(state(CutRecord(IDS[0], UUID(int=9), {0: 1003}))).cuts == {}


def test_a_foreign_record_counts_for_its_topics_and_its_turn() -> None:
    """One of an earlier turn, or of an earlier topic of the same name, stops nothing."""
    other = TopicPartition("orders", 2)

    def written(cut: CutRecord, *records: tuple[TopicPartition, WrittenRecord]) -> set[TopicPartition]:
        found = state(cut)
        for at, record in records:
            found.take(record.key(WrittenRecord.name_of(at)).encode(), record.encode())
        return set(written_of(found))

    cut = CutRecord(*IDS, {0: 1003})
    hit, young = WrittenRecord(*IDS, 70, 17, 1, 1003), WrittenRecord(*IDS, 0, -1, 1)
    assert written(cut, (AT, hit), (other, young)) == {AT, other}
    assert written(cut.with_cut(0, 2000).with_cut(2, 50), (AT, hit), (other, young)) == set()
    assert written(cut, (AT, replace(hit, target_id=UUID(int=9)))) == set()
    assert written(cut, (TopicPartition("gone", 0), hit)) == set()
    assert written(cut.with_cut(0, 1003, emptied=70), (AT, hit)) == {AT}
    assert written(cut.with_cut(0, 1003, emptied=71), (AT, hit)) == set(), "it was deleted"


def test_of_a_tail_that_the_target_keeps_nothing_is_copied() -> None:
    crossing, kept = Crossing(1003, 1020, 1000, 1009), (1020, (8, 9))
    cut = CutRecord(*IDS, {}).with_cut(0, 1003, crossings=(crossing,), kept=kept)
    assert CutRecord.of(json.loads(cut.encode())) == cut
    found = state(cut)
    assert known_of(found).crossings == {AT: (crossing,)}
    assert known_of(found).kept == {AT: KeptTail(1020, frozenset({8, 9}))}
    known = known_of(found)
    known = known._replace(producers=known.producers._replace(left_out=frozenset({7})))
    left_out, pair = known.left_out, known.pair("orders", 0)
    assert [left_out.ids_at(AT, o) for o in (1002, 1003, 1019, 1020)] == [{7, 8, 9}, {8, 9}, {8, 9}, set()]
    assert [pair.left_out_at(o, frozenset({7})) for o in (1002, 1019, 1020)] == [{7, 8, 9}, {8, 9}, set()]
    assert [left_out.divides(AT, *span) for span in ((1000, 1030), (1003, 1030), (1020, 1030))] == [
        1003,
        1020,
        None,
    ]
    assert pair.tail_end == 1009
    assert kept_ids(known.kept) == {8, 9}
    assert cut.with_cut(0, 2000).kept == {}, "the next turn begins after it"
    shard = Shard(0, "primary", ("g",), known)
    assert Shard.from_json(shard.to_json()).known == known
    terms = Terms("primary", known, "checkpoints", "id", 1, frozenset())
    assert not terms._replace(known=known._replace(crossings={}, kept={})).widened(terms)


def test_a_later_cut_replaces_the_one_before() -> None:
    assert CutRecord(*IDS, {0: 5, 1: 6}).with_cut(0, 9).skip_from == {0: 9, 1: 6}
    before = CutRecord(*IDS, {0: 5, 1: 6}, {0: 3, 1: 4}, {0: 1})
    assert before.with_cut(0, 9) == CutRecord(*IDS, {0: 9, 1: 6}, {1: 4}, {})
    assert before.with_cut(0, 9, emptied=8, rebuilt=2) == CutRecord(*IDS, {0: 9, 1: 6}, {0: 8, 1: 4}, {0: 2})


def test_a_topic_without_emptied_partitions_has_the_bytes_of_before() -> None:
    plain = CutRecord(*IDS, {0: 5})
    assert b"emptied" not in plain.encode()
    assert b"rebuilt" not in plain.encode()
    assert CutRecord.of(CutRecord(*IDS, {0: 5}, {0: 3}).to_json()).emptied == {0: 3}


def test_checkpoint_tasks_know_the_cuts() -> None:
    known = CopiedTopics(
        {"orders": ("orders", *IDS)}, Producers(1, frozenset({1})), {AT: 7}, {AT: 2}, {AT: 9}
    )
    shard = Shard(0, "primary", ("g",), known)
    assert Shard.from_json(shard.to_json()).known == known

    def terms(cuts: dict[TopicPartition, int]) -> Terms:
        return Terms("primary", known._replace(cuts=cuts), "checkpoints", "id", 1, frozenset())

    assert terms({AT: 7}).widened(terms({AT: 7, TopicPartition("new", 0): 3}))
    assert not terms({AT: 7}).widened(terms({AT: 8}))
    assert not terms({}).widened(terms({AT: 7})), "the groups of this topic are looked at again"
    again = terms({AT: 7})._replace(known=known._replace(rebuilt={}))
    assert not again.widened(terms({AT: 7})), "the same cut, and a copy that was recreated"


def test_what_was_committed_in_a_tail_that_is_kept_is_void() -> None:
    """Before and after it both logs have the same records: such a position is kept."""
    tail = {AT: (Crossing(0, 4, 0, 4), Crossing(10, 20, 50, 60))}
    kept = CopiedTopics(
        {}, Producers(1, frozenset()), crossings=tail, kept={AT: KeptTail(20, frozenset({7}))}
    )
    assert [o for o in (2, 50, 51, 60, 61) if kept.is_void(AT, o)] == [51, 60]
    assert not kept.is_void(AT, None)
    assert not kept._replace(kept={}).is_void(AT, 55), "a tail of an earlier turn"
    emptied = CopiedTopics({}, Producers(1, frozenset()), emptied={AT: 60})
    assert emptied.is_void(AT, None)
    assert emptied.is_void(AT, 70)
