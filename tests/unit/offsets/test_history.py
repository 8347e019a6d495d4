"""What claims say of sequence numbers, and where an anchor puts their records: a few examples."""

from __future__ import annotations

from typing import Final

import pytest

from drkit.offsets.history import Anchor, Broken, HistoryClaims, Piece, Stretch, pieces_of, steps, stretches
from drkit.offsets.map_record import SEQUENCE_MODULUS, History, Intent, Mode

HISTORY: Final = History(77, 0)


def claim(sequence: int, downstream: int, *runs: tuple[int, int], previous_end: int | None = None) -> Intent:
    end = downstream if previous_end is None else previous_end
    return Intent(Mode.LIVE, downstream, HISTORY, sequence, downstream, end, epoch_of(runs), runs)


def epoch_of(runs: tuple[tuple[int, int], ...]) -> int:
    """The source has another leader every hundred offsets."""
    return runs[-1][0] // 100


@pytest.mark.parametrize(
    ("sequence", "since", "count"),
    [
        (7, 5, 2),
        (5, 7, -2),
        (3, 3, 0),
        (1, SEQUENCE_MODULUS - 2, 3),  # 2³¹−2, 2³¹−1, 0, 1
        (SEQUENCE_MODULUS - 2, 1, -3),
    ],
)
def test_sequence_numbers_start_again_at_zero(sequence: int, since: int, count: int) -> None:
    assert steps(sequence, since) == count


def test_some_records_of_a_claim_and_what_comes_after_its_list() -> None:
    two = claim(0, 0, (10, 3), (20, 2))
    assert pieces_of(two, 0, 5, 100) == [Piece(10, 100, 3), Piece(20, 103, 2)]
    assert pieces_of(two, 2, 2, 100) == [Piece(12, 100, 1), Piece(20, 101, 1)]
    assert pieces_of(two, 4, 4, 100) == [Piece(21, 100, 4)]  # the last run continues
    assert pieces_of(two, 7, 1, 100) == [Piece(24, 100, 1)]


# -- Said.pieces ------------------------------------------------------------------------------------------


def test_a_run_continues_until_the_next_claim() -> None:
    said = HistoryClaims.of([claim(0, 0, (10, 2)), claim(6, 6, (50, 1))], since=0)
    assert said.pieces(0, 9, 100) == [Piece(10, 100, 6), Piece(50, 106, 3)]
    assert said.pieces(4, 7, 100) == [Piece(14, 100, 2), Piece(50, 102, 1)]


def test_the_claim_whose_list_ends_last_says_what_a_record_is() -> None:
    """The other one was written by a task that had read less of the source, or began later."""
    long = claim(0, 0, (10, 2), (20, 4))
    for other in (claim(0, 0, (10, 2)), claim(1, 1, (11, 1)), claim(3, 3, (21, 1))):
        for claims in ([long, other], [other, long]):
            pieces = HistoryClaims.of(claims, since=0).pieces(0, 7, 0)
            assert _joined(pieces) == [Piece(10, 0, 2), Piece(20, 2, 5)]


def _joined(pieces: list[Piece] | None) -> list[Piece]:
    out: list[Piece] = []
    for piece in pieces or []:
        last = out[-1] if out else None
        if last is not None and last.upstream + last.records == piece.upstream:
            out[-1] = last._replace(records=last.records + piece.records)
        else:
            out.append(piece)
    return out


def test_before_the_first_claim_records_follow_the_beginning() -> None:
    said = HistoryClaims.of([claim(5, 5, (80, 1))], since=0, begin=(0, 40))
    assert said.pieces(0, 7, 200) == [Piece(40, 200, 5), Piece(80, 205, 2)]


def test_what_no_claim_speaks_of_is_not_said() -> None:
    said = HistoryClaims.of([claim(5, 5, (80, 1))], since=0)
    assert said.pieces(4, 7, 0) is None
    assert said.pieces(5, 7, 0) == [Piece(80, 0, 2)]
    assert HistoryClaims.of([], since=0).pieces(0, 1, 0) is None


def test_claims_on_both_sides_of_the_wrap_are_in_order() -> None:
    first, second = claim(SEQUENCE_MODULUS - 3, 0, (10, 3)), claim(0, 3, (30, 2))
    said = HistoryClaims.of([second, first], since=SEQUENCE_MODULUS - 3)
    assert said.pieces(0, 5, 0) == [Piece(10, 0, 3), Piece(30, 3, 2)]


def test_the_leader_epoch_is_that_of_the_claim_that_says_what_the_record_is() -> None:
    said = HistoryClaims.of([claim(0, 0, (110, 2)), claim(4, 4, (250, 3))], since=0)
    assert [said.leader_epoch(at) for at in (-1, 0, 3, 4, 9)] == [None, 1, 1, 2, 2]


# -- stretches --------------------------------------------------------------------------------------------


def test_an_anchor_with_as_many_offsets_as_sequence_numbers_proves_the_claims() -> None:
    said = HistoryClaims.of([claim(0, 10, (0, 4)), claim(4, 14, (9, 3))], since=7)
    assert stretches(said, 7, 17, None) == [Stretch(-7, 0, 10, 10)]


def test_foreign_records_between_two_claims_make_two_stretches() -> None:
    """The second claim says where the flow's last record before it ended: an anchor of its own."""
    said = HistoryClaims.of([claim(0, 10, (0, 4)), claim(4, 20, (9, 3), previous_end=14)], since=7)
    assert stretches(said, 7, 23, None) == [Stretch(-7, -3, 10, 10), Stretch(-3, 0, 20, 14)]


def test_a_claim_that_was_not_appended_where_it_says_is_left_out() -> None:
    """Others wrote first; its records were appended further on, as the next claim says."""
    said = HistoryClaims.of(
        [claim(0, 10, (0, 4)), claim(4, 14, (9, 3)), claim(4, 16, (9, 3), previous_end=14)], since=7
    )
    assert stretches(said, 7, 19, None) == [Stretch(-7, -3, 10, 10), Stretch(-3, 0, 16, 14)]


def test_from_the_floor_on_the_records_follow_without_a_claim() -> None:
    floor = Anchor(sequence=3, upstream=30, downstream=13)
    assert stretches(HistoryClaims.of([], since=7, begin=(-4, 30)), 7, 17, floor, 13) == [
        Stretch(-4, 0, 13, 13)
    ]


def test_of_a_claim_across_the_floor_only_the_rest_is_new() -> None:
    floor = Anchor(sequence=3, upstream=30, downstream=13)
    said = HistoryClaims.of([claim(0, 10, (27, 7))], since=7, begin=(-4, 30))
    assert stretches(said, 7, 17, floor, 13) == [Stretch(-4, 0, 13, 13)]


def test_where_a_claim_is_missing_the_history_is_broken() -> None:
    floor = Anchor(sequence=3, upstream=30, downstream=13)
    found = stretches(HistoryClaims.of([], since=7, begin=(-4, 30)), 7, 20, floor, 13)
    assert isinstance(found, Broken)
    assert "from sequence 3 on, at target offset 13" in found.reason
    assert "up to sequence 7 at 20" in found.reason


def test_an_anchor_at_the_floor_adds_nothing() -> None:
    floor = Anchor(sequence=7, upstream=34, downstream=17)
    assert (
        stretches(HistoryClaims.of([claim(0, 10, (27, 7))], since=7, begin=(0, 34)), 7, 17, floor, 17) == []
    )
