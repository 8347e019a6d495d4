"""What a partition's start and end offsets say, compared with the end of its copy. Pure."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.failover.loss.findings import Divergence, DivergenceState, Emptied, PartitionDivergence, judged
from drkit.status.lag.source import Ends

offsets = st.integers(0, 50)


@pytest.mark.parametrize(
    ("frontier", "log", "same", "expected"),
    [
        (10, Ends(0, 10), True, (DivergenceState.CLEAN, 10, 0)),
        (10, Ends(0, 12), True, (DivergenceState.DIVERGED, 10, 0)),
        (10, Ends(0, 9), True, (DivergenceState.REGRESSED, 10, 0)),
        (10, Ends(11, 20), True, (DivergenceState.DIVERGED, 11, 1)),
        (10, Ends(20, 20), True, (DivergenceState.DIVERGED, 20, 10)),
        (None, Ends(3, 3), True, (DivergenceState.CLEAN, 3, 0)),
        (None, Ends(3, 5), True, (DivergenceState.DIVERGED, 3, 0)),
        (10, Ends(0, 10), False, (DivergenceState.RECREATED, 0, 0)),
        (10, None, False, (DivergenceState.GONE, 10, 0)),
        (None, None, False, (DivergenceState.GONE, 0, 0)),
    ],
)
def test_what_a_partition_has_diverged(frontier, log, same, expected):
    assert judged(frontier, log, same=same) == expected


@given(st.none() | offsets, offsets, offsets)
def test_every_offset_after_the_frontier_is_read_or_reported_as_gone(frontier, start, more):
    log = Ends(start, start + more)
    found, first, removed = judged(frontier, log, same=True)
    wanted = set(range(log.start if frontier is None else frontier, log.end))
    read = set(range(first, log.end))
    assert read <= wanted
    assert len(wanted - read) == removed
    assert (found is DivergenceState.CLEAN) == (not wanted and found is not DivergenceState.REGRESSED)


@given(st.none() | offsets, offsets, offsets, offsets)
def test_of_what_is_gone_a_return_has_deleted_what_it_emptied(frontier, start, more, up_to):
    found = judged(frontier, Ends(start, start + more), same=True)
    begins = found.first - found.removed
    assert Emptied(up_to).share(found) == len([o for o in range(begins, found.first) if o < up_to])


def said(*tails: PartitionDivergence, **more: Any) -> Divergence:
    return Divergence("a->b", tails, **more)


def test_what_is_not_known_is_never_clean():
    clean = PartitionDivergence("t", 0, DivergenceState.CLEAN, 5, 5)
    assert said(clean).is_clean
    assert not said(clean, clean._replace(found=DivergenceState.UNKNOWN)).is_clean
    assert not said(clean, clean._replace(found=DivergenceState.UNKNOWN)).is_known
    assert not said(clean._replace(emptied=3)).is_clean, "a return has deleted records there"
    assert not said(clean._replace(open_transaction=True)).is_clean, "it may still be committed"
    silent = said(unanswered="nothing listens")
    assert not silent.is_known
    assert not silent.is_clean
    assert silent.to_json()["records"] is None
    assert "a does not answer: nothing listens" in silent.statement()


def test_the_statement_names_partitions_and_what_may_still_come():
    found = said(PartitionDivergence("t", 1, DivergenceState.DIVERGED, 7, 9, 2), owed="it was dead")
    assert found.statement() == (
        "2 records are only on a: t-1 from 7 (diverged); its fence is pending, so more may come"
    )
