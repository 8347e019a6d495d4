"""Claims of several writers for one partition: all of one history are true, and the log says where.

That tasks at work at once leave an exact map is walked by `tests/model`, with their kills, late appends and
the broker's own rules.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from drkit.model import SourceOffset
from drkit.offsets import History, Intent, Turn
from drkit.offsets.map_record import Mode
from drkit.offsets.resolution import NeedLog
from drkit.offsets.resolve import resolve
from tests.support.offsets.settling import (
    HISTORY,
    OURS,
    after,
    foreign,
    live,
    look,
    map_of,
    mark,
    ours,
    settled,
)


def test_a_mark_in_the_middle_of_an_intent_leaves_its_rest_a_claim() -> None:
    state = map_of(live(7, 100, (200, 5), (210, 5)), mark(7, 203, 103))
    assert [claim.runs for claim in state.pending] == [((200, 5), (210, 5))]
    found = settled(state, look(108, after(108)))
    assert (found.segments.segments(), found.upstream) == ([(200, 100), (210, 105)], 213)


def test_a_late_claim_below_the_mark_is_harmless() -> None:
    """Of a task that was frozen: other records than those which another task has appended meanwhile."""
    state = map_of(live(1, 0, (0, 5)), mark(1, 5, 5), live(2, 3, (40, 2)))
    assert not state.pending
    found = settled(state, look(5, after(5)))
    assert (found.segments.segments(), found.upstream) == ([(0, 0)], 5)


def test_a_late_claim_that_reaches_further_than_the_mark_says_what_comes_after_it() -> None:
    state = map_of(live(1, 0, (0, 5)), mark(1, 5, 5), live(2, 3, (3, 2), (40, 3)))
    found = settled(state, look(8, after(8)))
    assert found.segments.triples() == [(0, 0, 5), (40, 5, -1)]
    assert (found.upstream, found.unappended) == (43, False)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_two_claims_at_one_offset_the_one_that_lists_a_record_counts(
    order: tuple[int, ...],
) -> None:
    """The shorter ones were written by tasks that had read less; without a list a run continues."""
    claims = live(1, 0, (10, 2)), live(2, 0, (10, 2), (20, 3)), live(3, 0, (10, 2), (20, 1))
    state = map_of(*(claims[i] for i in order))
    log = [ours(0, 2, after(0)), ours(2, 5, after(2))]
    for asked in (look(7, after(7)), look(7, None)):
        found = settled(map_of(*(claims[i] for i in order)), asked, log)
        assert found.segments.triples() == [(10, 0, 2), (20, 2, -1)]
        assert found.upstream == 25
    assert len(state.pending) == 3


def test_of_two_claims_at_one_offset_the_log_says_how_much_was_appended() -> None:
    """One task appended two records, another task's record came between, then the second went on."""
    claims = live(1, 0, (10, 4)), live(2, 2, (12, 4), (30, 2))
    log = [ours(0, 2, after(0)), foreign(2, 3), ours(5, 4, after(2))]
    assert resolve(map_of(*claims), look(9, after(6))) == NeedLog(0)
    found = settled(map_of(*claims), look(9, after(6)), log)
    assert found.segments.triples() == [(10, 0, 2), (12, 5, -1)]
    assert (found.upstream, found.unappended) == (16, True)


def test_of_two_histories_at_one_offset_the_open_one_counts() -> None:
    """Their records differ, and a batch names its history by its producer epoch."""
    new = History(OURS, 1)
    turn = Turn(
        nonce=5, reign=2, ended=HISTORY, ended_sequence=after(0), history=new, upstream=0, downstream=1,
        copied_end=0, leader_epoch=1, target_epoch=-1,
    )  # fmt: skip
    old, claim = (
        live(1, 1, (0, 4), sequence=after(0)),
        Intent(Mode.LIVE, 6, new, 0, 1, 0, 1, ((0, 1), (2, 3))),
    )
    for records in ((old, turn, claim), (turn, claim, old), (turn, old, claim)):
        found = settled(map_of(*records), look(5, None), [ours(1, 4, 0, new)])
        assert found.segments.triples() == [(0, 1, 1), (2, 2, -1)]
        assert (found.upstream, found.foreign) == (5, [])


def test_a_batch_of_another_epoch_is_not_of_the_history() -> None:
    state = map_of(live(1, 0, (0, 2)), mark(1, 2, 2))
    found = settled(state, look(4, None), [ours(0, 2, after(0)), ours(2, 2, after(2), History(OURS, 7))])
    assert [f.producer_id for f in found.foreign] == [OURS]
    assert found.upstream == 2


def test_a_mark_confirms_claims_of_every_writer_before_it() -> None:
    """The cleaner has removed the first task's mark: the newest of a partition replaces the others."""
    state = map_of(live(1, 0, (10, 3)), live(2, 3, (20, 3)), live(3, 6, (30, 3)), mark(3, 33, 9))
    assert not state.pending
    assert state.segments.triples() == [(10, 0, 3), (20, 3, 3), (30, 6, -1)]
    assert state.segments.translate(SourceOffset(11), 9) == 1
