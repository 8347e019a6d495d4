"""Which records of others stop a partition that began with a turn, and which gaps a transaction has seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drkit.copy_task.target.bulk import Placed, gaps_of
from drkit.copy_task.target.foreign import stranger_in
from drkit.model import TopicPartition
from drkit.offsets import SegmentMap
from drkit.offsets.resolution import Foreign, Resolution

OWN, CLIENT, OTHER = 7, 900, 901
AT = TopicPartition("orders", 0)


def found(*foreign: Foreign) -> Resolution:
    return Resolution(SegmentMap(), None, 5, 50, 40, 0, -1, foreign=list(foreign))


@pytest.mark.parametrize(
    ("foreign", "stable", "wanted"),
    [
        ([], 50, None),
        ([Foreign(40, 2, OWN), Foreign(42, 1, OWN, transactional=True)], 50, None),
        ([Foreign(40, 2, CLIENT)], 50, (40, True)),
        ([Foreign(40, 2, CLIENT)], -1, (40, True)),
        ([Foreign(40, 2, OWN), Foreign(42, 1, -1)], 50, (42, True)),
        ([Foreign(40, 2, CLIENT, transactional=True)], 43, (40, True)),
        ([Foreign(40, 2, CLIENT, transactional=True)], 40, (40, False)),
        ([Foreign(40, 2, CLIENT, transactional=True)], -1, (40, False)),
        ([Foreign(40, 2, CLIENT, transactional=True), Foreign(42, 1, OTHER)], 40, (42, True)),
    ],
    ids=[
        "none", "own", "plain", "plain, last stable offset unknown", "after an own one", "committed", "open",
        "in a transaction, last stable offset unknown", "plain after an open one",
    ],
)  # fmt: skip
def test_a_record_that_a_consumer_sees_counts(
    foreign: list[Foreign], stable: int, wanted: tuple[int, bool] | None
) -> None:
    stranger = stranger_in(found(*foreign), frozenset({OWN}), stable)
    assert (stranger and (stranger[0].base, stranger[1])) == wanted


def placed(*spans: tuple[int, int]) -> list[Placed]:
    partition = SimpleNamespace(target=AT)
    made: list[Any] = [
        (SimpleNamespace(partition=partition, chunk=SimpleNamespace(count=count)), base)
        for base, count in spans
    ]
    return cast("list[Placed]", made)


def test_gaps_are_known_before_the_commit_and_change_nothing_themselves() -> None:
    ends = {AT: 40}
    gaps, after = gaps_of(placed((40, 5), (45, 2)), ends)
    assert (gaps, after, ends) == ([], {AT: 48}, {AT: 40}), "the marker takes an offset, too"
    gaps, after = gaps_of(placed((49, 5), (55, 2)), after)
    assert [(g.offset, g.offsets) for g in gaps] == [(48, 1), (54, 1)]
    assert after == {AT: 58}
