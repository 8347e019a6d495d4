"""What leader epochs, topics, ends and committed offsets say, of both sides. Pure."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.failover.loss.divergence import BeyondCounter
from drkit.failover.loss.findings import (
    CommitKind,
    CopyFate,
    Divergence,
    DivergenceState,
    EpochWord,
    OldCommit,
    PartitionDivergence,
    epoch_word,
)
from drkit.failover.loss.new_primary import Copy, copy_state, shortened
from drkit.kafka.reading.record_cursor import EpochEnd
from drkit.kafka.requests import PartitionLeader, TopicMetadata
from drkit.model import TopicPartition

ONE, TWO = UUID(int=1), UUID(int=2)
AT = TopicPartition("t", 0)
CLEAN = PartitionDivergence("t", 0, DivergenceState.CLEAN, 10, 10, proven=True)


@pytest.mark.parametrize(
    ("epoch", "answer", "other_from", "doubts"),
    [
        (3, EpochEnd(3, 10), None, ""),
        (3, EpochEnd(3, 40), None, ""),
        (3, EpochEnd(3, 7), 7, "ends at 7, before 10"),
        (3, EpochEnd(2, 7), 7, "ends at 7, before 10"),
        (3, EpochEnd(-1, -1), None, "never heard of leader epoch 3"),
        (3, None, None, ""),
        (-1, EpochEnd(3, 7), None, ""),
    ],
)
def test_records_of_a_later_epoch_before_the_frontier_are_other_records(
    epoch: int, answer: EpochEnd | None, other_from: int | None, doubts: str
):
    found: EpochWord = epoch_word(epoch, answer, 10)
    assert found.other_from == other_from
    assert doubts in found.doubt
    assert bool(doubts) == bool(found.doubt)


@pytest.mark.parametrize(
    ("end", "epoch", "cut", "expected"),
    [
        (10, EpochEnd(1, 10), 10, Copy(CopyFate.KEPT)),
        (50, EpochEnd(1, 10), 10, Copy(CopyFate.KEPT)),
        (9, EpochEnd(1, 9), 10, Copy(CopyFate.REGRESSED, 9)),
        (50, EpochEnd(1, 8), 10, Copy(CopyFate.REGRESSED, 8)),
        (9, None, 10, Copy(CopyFate.REGRESSED, 9)),
        (50, None, 10, Copy(CopyFate.KEPT)),
        (50, EpochEnd(-1, -1), 10, Copy(CopyFate.KEPT)),
        (5, None, None, Copy(CopyFate.KEPT)),
    ],
)
def test_a_copy_reaches_to_its_cut_or_has_lost_records(
    end: int, epoch: EpochEnd | None, cut: int | None, expected: Copy
):
    assert shortened(end, epoch, cut) == expected


def test_what_became_of_the_topic_of_a_copy():
    topic = TopicMetadata(0, ONE, {0: PartitionLeader(1, 0)})
    assert copy_state(topic, ONE, 0) is CopyFate.KEPT
    assert copy_state(topic, ONE, 1) is CopyFate.GONE
    assert copy_state(topic, TWO, 0) is CopyFate.RECREATED
    assert copy_state(TopicMetadata(3, UUID(int=0), {}), ONE, 0) is CopyFate.GONE


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=3), st.integers(0, 20), max_size=6),
    st.sets(st.integers(0, 20)),
)
def test_the_records_of_the_tail_before_each_commit_are_counted(commits: dict[str, int], tail: set[int]):
    counter = BeyondCounter({(group, AT): offset for group, offset in commits.items()})
    for offset in sorted(tail):
        counter.take(AT, offset)
        counter.take(TopicPartition("other", 0), offset)
    found = {c.group: c for c in counter.judged({}, [])}
    assert {g: c.beyond for g, c in found.items()} == {
        g: sum(o < offset for o in tail) for g, offset in commits.items()
    }
    assert all((c.kind is CommitKind.BEYOND) == (c.beyond > 0) for c in found.values())


def test_a_commit_without_records_of_the_tail_is_superseded_or_another():
    counter = BeyondCounter({("a", AT): 8, ("b", AT): 7, ("c", AT): 8})
    found = counter.judged({("a", AT): 8, ("b", AT): 5}, [CLEAN])
    assert found == (
        OldCommit("a", "t", 0, 8, CommitKind.SUPERSEDED, 8),
        OldCommit("b", "t", 0, 7, CommitKind.OTHER, 5),
        OldCommit("c", "t", 0, 8, CommitKind.OTHER, None),
    )
    gone = CLEAN._replace(found=DivergenceState.DIVERGED, lost_from=6, removed=3)
    assert {c.kind for c in counter.judged({("a", AT): 8}, [gone])} == {CommitKind.BEYOND}, "not countable"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"only_new": 3}, "clean, 3 only on the new primary"),
        ({"copy": CopyFate.REGRESSED}, "clean, its copy is regressed"),
        ({"open_transaction": True}, "clean, an open transaction"),
        (
            {"found": DivergenceState.REGROWN, "why": "its leader epoch ends"},
            "regrown, its leader epoch ends",
        ),
    ],
)
def test_a_partition_is_clean_only_if_both_sides_are(more: dict[str, object], said: str):
    tail = CLEAN._replace(**more)  # type: ignore[arg-type]
    assert CLEAN.is_clean
    assert not tail.is_clean
    assert tail.in_words == said
    assert f"t-0 from 10 ({said})" in Divergence("a->b", (tail,)).statement()


def test_a_topic_that_was_never_copied_counts_if_it_holds_records():
    late = PartitionDivergence("late", 0, DivergenceState.DIVERGED, 0, 3, 3)
    found = Divergence("a->b", (CLEAN,), uncopied=(late,))
    assert not found.is_clean
    assert found.to_json()["records"] == 3
    assert Divergence("a->b", (CLEAN,), uncopied=(late._replace(found=DivergenceState.CLEAN),)).is_clean
