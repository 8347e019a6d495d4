"""A tail that the old primary keeps: all of it is appended, once, or nothing of it. No broker."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from drkit.errors import Refused
from drkit.model import TopicPartition
from drkit.replay.compare import HEADER, Origin, Same, TailFlag
from drkit.replay.plan import NotKept, refuse_other_way, refuse_repeats
from drkit.replay.progress import ReplayProgress
from drkit.replay.tail import Export, Tail
from drkit.wire import Record
from tests.support.errors import coded

AT = TopicPartition("orders", 0)
TAIL = Tail(Origin("c", AT, "r1"), UUID(int=1), 10, 20, 8, lambda _at: iter(()), 1)
EXPORT = Export("r1", "0" * 64, "c", "p->s", (TAIL,))
[KEPT] = EXPORT.kept().tails
BEGUN = ReplayProgress(
    run_id="r1", manifest="0" * 64, source_topic="orders", source_id=UUID(int=1), partition=0, first=10,
    end=20, topic="orders", topic_id=UUID(int=2), same=Same.CONTENT, compared_to=50, records=8, next=15,
    appended=4,
)  # fmt: skip
KEEPING = replace(BEGUN, ids=(7,), copied_to=60)


def test_what_is_appended_is_equal_to_what_is_kept() -> None:
    record = Record(12, 5, b"k", b"v", ((b"h", b"x"),))
    assert KEPT.origin.stamped(record) == record
    assert [name for name, _ in TAIL.origin.stamped(record).headers] == [b"h", HEADER]


def test_its_progress_names_the_producers_and_where_it_ends() -> None:
    assert ReplayProgress.of(KEEPING.to_json()) == KEEPING
    assert not {"ids", "copied_to"} & BEGUN.to_json().keys(), "others have the bytes of before"


def test_nothing_of_it_may_be_there() -> None:
    refuse_repeats(KEPT, bytes([0, TailFlag.KEY_CHANGED, 0]), "s", None)
    with pytest.raises(Refused, check=coded("keep_content_known")) as caught:
        refuse_repeats(KEPT, bytes([0, TailFlag.ALIKE | TailFlag.KEY_CHANGED]), "s", Same.CONTENT)
    assert "--same none" in caught.value.hint
    with pytest.raises(Refused, check=coded("keep_replayed_before")) as caught:
        refuse_repeats(KEPT, bytes([TailFlag.REPLAYED, TailFlag.ALIKE]), "s", None)
    assert caught.value.evidence.startswith("1 of 2 records")


def test_a_return_says_the_command_that_appends_what_is_missing() -> None:
    """It alone knows with which options it was begun."""
    command = lambda topic, same: f"again {topic}" + (f" --same {same}" if same else "")  # noqa: E731
    for flag, hint in (
        (TailFlag.REPLAYED, "again orders appends what is missing"),
        (
            TailFlag.ALIKE,
            "keeps both; if they are the same: again orders --same content appends what is missing",
        ),
    ):
        with pytest.raises(NotKept) as caught:
            refuse_repeats(KEPT, bytes([flag]), "s", None)
        assert caught.value.way_out(command).endswith(hint)
    with pytest.raises(NotKept) as caught:
        refuse_other_way(KEPT, [BEGUN], "s")
    assert (
        caught.value.way_out(command)
        == "run that command to its end; then again orders appends what is missing"
    )


def test_only_the_run_that_began_it_continues() -> None:
    done = replace(KEEPING, next=20, appended=8)
    refuse_other_way(KEPT, [], "s")
    refuse_other_way(KEPT, [KEEPING], "s")
    refuse_other_way(TAIL, [BEGUN], "s")
    refuse_other_way(TAIL, [done], "s")  # nothing is left to do
    refuse_other_way(KEPT, [replace(KEEPING, run_id="r0", first=0, end=10)], "s")
    refuse_other_way(KEPT, [replace(KEEPING, run_id="r0", source_id=UUID(int=9))], "s")
    refuse_other_way(KEPT, [replace(KEEPING, run_id="r0", appended=0, rolled_back_ms=1)], "s")
    for keeping in (KEEPING, replace(KEEPING, run_id="r0"), replace(KEEPING, appended=0, next=10)):
        with pytest.raises(Refused, check=coded("keep_under_way")):
            refuse_other_way(TAIL, [keeping], "s")
    with pytest.raises(Refused, check=coded("keep_begun_otherwise")):
        refuse_other_way(KEPT, [BEGUN], "s")
    for before in (BEGUN, replace(BEGUN, next=20)):
        with pytest.raises(Refused):
            refuse_other_way(KEPT, [before], "s")
    for before in (replace(BEGUN, run_id="r0"), replace(KEEPING, run_id="r0", rolled_back_ms=1)):
        with pytest.raises(Refused, check=coded("keep_replayed_before")):
            refuse_other_way(KEPT, [before], "s")
        refuse_other_way(TAIL, [before], "s")  # it is compared by content


def test_a_tail_of_a_return_that_was_rolled_back_may_be_replayed_not_kept() -> None:
    """Also by the same export, which has begun it."""
    left = replace(KEEPING, rolled_back_ms=1)
    assert KEEPING.is_open
    assert not left.is_open
    assert ReplayProgress.of(left.to_json()) == left
    assert "rolled_back_ms" not in KEEPING.to_json(), "others have the bytes of before"
    refuse_other_way(TAIL, [left], "s")
    with pytest.raises(Refused, check=coded("keep_replayed_before")):
        refuse_other_way(KEPT, [replace(left, run_id="r0")], "s")
