"""Offset syncs: whatever of them a reader of MirrorMaker 2 holds, it never leads a group past a record."""

from __future__ import annotations

from bisect import bisect_left
import itertools

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.offsets import SegmentMap
from drkit.offsets.segments import UNKNOWN
from drkit.offsets.sync_plan import HeldSyncs, Sync, plan

Records = list[tuple[int, int]]
"""Source and target offset of every copied record, in order."""


def mapped(records: Records, start: int = 0) -> SegmentMap:
    """The exact map of some records; with `start` only from a target offset on, as after a trim."""
    made = SegmentMap()
    end = 0
    for up, down in records:
        made.append(up, down, previous_end=end)
        end = down + 1
    if records:
        made.close(end)
    made.trim(start)
    return made


def exact(records: Records, committed: int, end: int) -> int:
    """The target offset of the first copied record from a committed source offset on."""
    at = bisect_left([up for up, _ in records], committed)
    return records[at][1] if at < len(records) else end


def answer(sync: Sync, committed: int) -> int:
    """What MirrorMaker 2's store makes of one sync."""
    return sync.downstream + (committed > sync.upstream)


def check(held: HeldSyncs, records: Records, end: int, most: int) -> None:
    """Any of the syncs may be the one by which a reader translates: older ones it may have dropped."""
    for sync in held._syncs:
        for committed in range(max(0, sync.upstream), most + 2):
            assert answer(sync, committed) <= exact(records, committed, end), (sync, committed)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Records]]:
    """Steps of a partition's life: it grows, its target loses its tail, its topic is created again."""
    steps: list[tuple[str, Records]] = []
    records: Records = []
    up = down = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["grow", "grow", "grow", "cut", "anew"]))
        if kind == "cut" and records:
            del records[draw(st.integers(0, len(records))) :]
            down = records[-1][1] + 1 if records else 0
            up = records[-1][0] + 1 if records else 0
        elif kind == "anew":
            records = []
            up, down = draw(st.integers(0, 60)), draw(st.integers(0, 5))
        for _ in range(draw(st.integers(0, 40))):
            up += draw(st.sampled_from([0, 0, 0, 1, 7]))
            down += draw(st.sampled_from([0, 0, 0, 1, 3]))
            records.append((up, down))
            up, down = up + 1, down + 1
        steps.append((kind, list(records)))
    return steps


@given(histories(), st.integers(1, 20), st.data())
def test_no_sync_leads_past_a_record(steps: list[tuple[str, Records]], spacing: int, data: st.DataObject):
    """Whatever happens to the partition, also if the writer is restarted in between."""
    held = HeldSyncs()
    topic: list[Sync] = []
    for _, records in steps:
        end = records[-1][1] + 1 if records else 0
        if data.draw(st.booleans()):
            continue  # no look between these steps
        if data.draw(st.booleans()):
            held = HeldSyncs(topic)  # a new process reads what the topic holds
        written = plan(mapped(records), end, held, spacing)
        held.take(written)
        topic += written
        check(held, records, end, records[-1][0] if records else 5)
        assert not plan(mapped(records), end, held, spacing), "at rest there is nothing to write"
        if records:
            newest = held.newest
            assert newest is not None
            # A group at the end of what was copied is led to the end.
            assert answer(newest, records[-1][0] + 1) == end
    assert len(HeldSyncs(topic)._syncs) == len(held._syncs)


@given(st.integers(1, 5000), st.integers(1, 300))
def test_a_long_run_costs_few_syncs_and_the_newest_are_the_densest(count: int, spacing: int):
    records = [(n, n) for n in range(count)]
    written = plan(mapped(records), count, HeldSyncs(), spacing)
    assert written[0] == (0, 0)
    assert written[-1] == (count - 1, count - 1)
    assert written == sorted(set(written))
    steps = [b.upstream - a.upstream for a, b in itertools.pairwise(written)]
    assert not steps or steps[-1] <= spacing
    assert len(written) <= 3 + (count // spacing).bit_length()


def test_only_records_that_were_copied_are_named():
    """A hole's offset would let a group skip: for positions after it the reader adds one."""
    records = [(0, 0), (1, 1), (10, 2), (11, 5)]
    assert plan(mapped(records), 6, HeldSyncs(), 1) == [(0, 0), (1, 1), (10, 2), (11, 5)]


def test_another_replicators_syncs_are_left_alone():
    """The map knows nothing of what was copied before a takeover."""
    taken = SegmentMap.of([(0, 0, UNKNOWN), (100, 80, -1)])
    held = HeldSyncs([Sync(10, 9), Sync(99, 79)])
    assert plan(taken, 120, held, 100) == [(139, 119)]


def test_what_the_targets_retention_took_is_no_contradiction():
    records = [(n + n // 5, n) for n in range(100)]
    held = HeldSyncs(plan(mapped(records), 100, HeldSyncs(), 10))
    assert not plan(mapped(records, start=90), 100, held, 10)


def test_a_record_that_became_a_hole_rewinds():
    """The offset of the sync is another record's now: a group that is one further must read that one."""
    records = [(3, 3), (4, 4), (7, 5), (8, 6)]
    assert plan(mapped(records), 7, HeldSyncs([Sync(3, 3), Sync(5, 5)]), 100) == [(3, 3), (8, 6)]


@pytest.mark.parametrize(
    ("first", "rewound"),
    [((40, 0), Sync(40, 0)), ((500, 0), Sync(-1, -1)), ((100, 7), Sync(-1, 6))],
)
def test_another_topic_of_the_same_name_rewinds(first: tuple[int, int], rewound: Sync):
    """Readers forget all syncs when one comes with a smaller source offset than the newest has."""
    held = HeldSyncs([Sync(50, 50), Sync(100, 100)])
    up, down = first
    records = [(up + n, down + n) for n in range(30)]
    written = plan(mapped(records), down + 30, held, 1000)
    assert written[0] == rewound
    assert written[-1] == records[-1]
    held.take(written)
    check(held, records, down + 30, up + 30)
