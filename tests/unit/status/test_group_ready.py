"""When a group is called ready for a failover, and above all when not. No clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.cli.screens.status import ago, group_lines
from drkit.config import FlowSettings
from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import OffsetMark, StoredOffset
from drkit.offsets.mm2_records import CheckpointSeen
from drkit.offsets.segments import SegmentMap
from drkit.offsets.translation import PartitionPosition
from drkit.status.group_ready import FlowFacts, GroupFacts, judged
from drkit.status.groups import (
    GroupPartition,
    GroupsSeen,
    GroupStatus,
    Readiness,
    Rounds,
    group_faults,
    worst_first,
)
from drkit.status.groups_look import not_stored_of, rounds_of
from drkit.status.model import FlowStatus, Loss
from tests.support.stored import flow_state

NOW = 1_700_000_000_000
AT = TopicPartition("orders", 0)
SEGMENTS = SegmentMap.of([(0, 0, -1)])
PLACE = PartitionPosition(SEGMENTS, 100, 0, 100, 100, 0, 120)
"""The copy has come to 100 of 120; offsets are the same on both sides."""
FLOW = FlowFacts(
    "a", sync=True, source_answers=True, promoted=frozenset(), now_ms=NOW, stale="", not_stored={}
)


def ours(upstream: int) -> StoredOffset:
    return StoredOffset(upstream, OffsetMark("a", upstream, upstream, NOW - 3000).text())


FACTS = GroupFacts("g", AT, TopicPartition("b.orders", 0), PLACE, StoredOffset(50),
              CheckpointSeen(50, 50, NOW - 3000), ours(50), "Empty", worked=False)  # fmt: skip
DEAD = FLOW._replace(source_answers=False)
GONE: dict[str, Any] = {
    "on_source": None,
    "place": PartitionPosition(SEGMENTS, 100, 0, 100, 100, frozen=True),
}


@pytest.mark.parametrize(
    ("flow", "facts", "state", "repeats"),
    [
        ({}, {}, Readiness.READY, 0),
        ({}, {"on_source": StoredOffset(53)}, Readiness.READY, 3),  # the next round brings it on
        (
            {},
            {"on_source": StoredOffset(110)},
            Readiness.READY,
            60,
        ),  # ahead of the copy, as ever while it works
        ({}, {"on_source": StoredOffset(110), "target_state": "Stable"}, Readiness.REFUSED, 60),
        (
            {},
            {"on_source": StoredOffset(110), "on_target": None, "checkpoint": None},
            Readiness.WAITING,
            None,
        ),
        ({}, {"on_target": None}, Readiness.WAITING, None),
        (
            {},
            {"on_source": StoredOffset(40)},
            Readiness.WAITING,
            0,
        ),  # it went back: a failover now would skip
        ({}, {"on_source": StoredOffset(130)}, Readiness.REFUSED, 80),  # after the source's end
        ({}, {"target_state": "Stable"}, Readiness.REFUSED, 0),
        ({}, {"worked": True}, Readiness.REFUSED, 0),
        ({}, {"on_target": StoredOffset(50)}, Readiness.REFUSED, None),
        ({}, {"place": PartitionPosition(SEGMENTS, 100, 0, 10, 100, 0, 120)}, Readiness.REFUSED, 0),
        ({}, {"place": Unavailable("created again")}, Readiness.REFUSED, 0),
        (
            {},
            {"place": PartitionPosition(source_start=0, source_end=9), "on_source": StoredOffset(5)},
            Readiness.WAITING,
            0,
        ),
        ({}, {"target_state": None}, Readiness.UNKNOWN, 0),
        ({}, {"unread": "error 30"}, Readiness.UNKNOWN, 0),
        ({"stale": "90 s old"}, {}, Readiness.UNKNOWN, 0),
        ({"not_stored": {("g", "orders-0"): "code 12"}}, {"on_target": None}, Readiness.REFUSED, None),
        ({"promoted": frozenset({"b.orders"})}, {}, Readiness.THERE, 0),
        (
            {},
            {"on_source": StoredOffset(50, OffsetMark("b", 7, 50, 1).text()), "on_target": StoredOffset(7)},
            Readiness.THERE,
            None,
        ),
        (
            {},
            {"on_source": StoredOffset(50, OffsetMark("b", 7, 50, 1).text()), "on_target": None},
            Readiness.WAITING,
            None,
        ),
        ({"sync": False}, {"on_target": None}, Readiness.READY, 0),
        ({"sync": False}, {"on_target": None, "on_source": StoredOffset(55)}, Readiness.READY, 5),
        ({"sync": False}, {"on_target": None, "checkpoint": None}, Readiness.WAITING, None),
    ],
)
def test_each_reason(flow: dict[str, Any], facts: dict[str, Any], state: Readiness, repeats: int | None):
    found = judged(FLOW._replace(**flow), FACTS._replace(**facts))
    assert (found.state, found.repeats) == (state, repeats), found
    assert (found.reason == "") == (state is Readiness.READY)


def test_after_the_source_was_emptied_a_group_is_where_its_position_is_by_the_map():
    """The idle group's mark is not written again: its source offset is from before a return of the source."""
    place = PartitionPosition(SegmentMap.of([(700, 0, -1)]), 800, 0, 100, 100, 700, 800)
    moved = FACTS._replace(place=place, on_source=StoredOffset(750, OffsetMark("b", 50, 750, 1).text()))
    found = judged(FLOW, moved._replace(checkpoint=CheckpointSeen(750, 50, NOW - 3000)))
    assert (found.state, found.position, found.repeats) == (Readiness.READY, 50, 0)
    assert judged(FLOW, moved._replace(on_source=StoredOffset(753))).repeats == 3
    ahead = moved._replace(
        on_source=StoredOffset(790), place=replace(place, frontier=780, copied_end=80, end=80)
    )
    assert judged(FLOW, ahead).repeats == 40
    void = judged(FLOW, moved._replace(on_source=StoredOffset(753), is_void=True))
    assert void.repeats == 703, "the map has nothing of a position that was emptied"


def test_without_its_source_a_group_is_where_it_was_seen_last():
    found = judged(DEAD, FACTS._replace(**GONE))
    assert (found.state, found.committed, found.position, found.left) == (Readiness.READY, 50, 50, 50)
    assert found.repeats is None  # what it committed since is unknown
    # Of a checkpoint and a mark the later one counts; an older checkpoint does not send the group back.
    later = judged(
        DEAD, FACTS._replace(**GONE, on_target=ours(60), checkpoint=CheckpointSeen(50, 50, NOW - 9000))
    )
    assert (later.state, later.committed) == (Readiness.READY, 60)
    later = judged(DEAD, FACTS._replace(**GONE, checkpoint=CheckpointSeen(70, 70, NOW - 10)))
    assert (later.state, later.committed, later.position) == (Readiness.READY, 70, 70)
    nothing = judged(DEAD, FACTS._replace(**GONE, on_target=None, checkpoint=None))
    assert (nothing.state, nothing.position) == (Readiness.UNKNOWN, None)
    unwritten = judged(DEAD, FACTS._replace(**GONE, on_target=None))
    assert unwritten.state is Readiness.REFUSED
    assert "before the source was lost" in unwritten.reason


def test_a_group_that_is_idle_since_it_came_home_is_ready():
    """Its offset on the source came from the target; both are the same position."""
    home = StoredOffset(50, OffsetMark("b", 50, 50, NOW - 9000).text())
    assert judged(FLOW, FACTS._replace(on_source=home)).state is Readiness.READY
    renumbered = FACTS._replace(on_source=home, on_target=ours(7))
    assert judged(FLOW, renumbered).state is Readiness.READY, "the next round writes it"
    unseen = judged(FLOW, renumbered._replace(checkpoint=CheckpointSeen(7, 7, NOW)))
    assert unseen.state is Readiness.READY
    for more in ({"place": Unavailable("created again")}, {"target_state": "Stable"}):
        assert judged(FLOW, FACTS._replace(on_source=home, **more)).state is Readiness.REFUSED, more
    promoted = FLOW._replace(promoted=frozenset({"b.orders"}))
    assert judged(promoted, FACTS._replace(on_source=home)).state is Readiness.THERE


offsets = st.integers(0, 130)
stored = st.none() | st.builds(StoredOffset, offsets) | st.builds(ours, offsets)


@given(on_source=offsets, on_target=stored, state=st.sampled_from(["", "Empty", "Stable", None]),
       worked=st.booleans(), sync=st.booleans())  # fmt: skip
def test_ready_means_that_nothing_is_skipped(
    *, on_source: int, on_target: StoredOffset | None, state: str | None, worked: bool, sync: bool
):
    facts = FACTS._replace(
        on_source=StoredOffset(on_source), on_target=on_target, target_state=state, worked=worked
    )
    found = judged(FLOW._replace(sync=sync), facts)
    if found.state is Readiness.READY and sync:
        assert on_target is not None
        assert on_target.mark is not None
        assert on_target.offset <= on_source
        assert found.repeats == on_source - on_target.offset
        assert state in {"", "Empty"}
        assert not worked


def round_before(age_ms: int, **more: Any) -> dict[str, Any]:
    return {"checkpoints": {"at_ms": NOW, "ok_ms": NOW - age_ms, "seconds": 0.2, **more}}


def test_rounds_are_stale_after_some_time_without_a_good_one():
    flow = FlowSettings(source="a", target="b")

    def rounds(values: dict[str, Any], *, alive: bool = True) -> Rounds:
        return rounds_of(flow_state(values), flow, NOW, source_answers=alive)

    assert rounds(round_before(29_000)).stale == ""
    assert "31 s old, more than 30 s: no answer" in rounds(round_before(31_000, error="no answer")).stale
    assert "no checkpoint round" in rounds({}).stale
    assert "no checkpoint round" in rounds({"checkpoints": {"at_ms": NOW}}).stale  # what an older drkit wrote
    # Once the source is gone no round can end well: how old was the last when the source was seen last?
    seen = {"source-seen": {"at_ms": NOW - 3_600_000, "topics": {}}}
    assert rounds({**round_before(3_604_000), **seen}, alive=False).stale == ""
    found = rounds({**round_before(3_640_000), **seen}, alive=False)
    assert found.stale == "the last checkpoints were 40 s old when the source was seen last, more than 30 s"
    assert (found.age_seconds, found.source_gone_seconds) == (3640.0, 3600.0)
    refused = [["g", "orders-0", "NOT_STORED", "code 12"], ["g", "orders-1", "LIVE", ""]]
    assert not_stored_of(flow_state(round_before(0, refused=refused))) == {("g", "orders-0"): "code 12"}


def part(state: Readiness = Readiness.READY, reason: str = "", partition: int = 0) -> GroupPartition:
    return GroupPartition("orders", "orders", partition, 9, 9, 9, 0, 3, NOW - 5000, state, reason)


FRESH = Rounds(2.0, 30.0)


def test_a_group_is_as_good_as_its_worst_partition():
    ready, waits = part(), part(Readiness.WAITING, "not written yet", 1)
    live = part(Readiness.REFUSED, "members", 2)
    g = GroupStatus("g", partitions=(ready, waits, live))
    assert (g.ready, g.faulty, g.ready_partitions, g.reason) == (False, True, 1, "orders-2: members")
    assert not GroupStatus("g", partitions=(ready, waits)).faulty
    assert GroupStatus("g", partitions=(live, live)).reason == "members"
    assert (
        GroupStatus("g", partitions=(ready,), not_copied=("audit",)).reason == "also reads audit, not copied"
    )
    on_target = GroupStatus("g", partitions=(part(Readiness.THERE, "topic promoted"),))
    assert (on_target.ready, on_target.wanted, on_target.reason) == (True, [], "works on the target")
    assert GroupStatus("g", partitions=(part()._replace(repeats=None), ready)).repeats is None


def test_what_is_a_fault():
    bad = GroupStatus("bad", partitions=(part(Readiness.REFUSED, "members"),))
    waits, good = (
        GroupStatus("w", partitions=(part(Readiness.WAITING, "x"),)),
        GroupStatus("a", partitions=(part(),)),
    )
    assert [g.group for g in worst_first([good, waits, bad])] == ["bad", "w", "a"]
    assert group_faults(GroupsSeen(NOW, FRESH, (good, waits))) == []
    assert group_faults(GroupsSeen(NOW, FRESH, (good, bad))) == [
        ("groups_not_ready", "1 of 2 groups, first bad: members")
    ]
    assert [c for c, _ in group_faults(GroupsSeen(NOW, Rounds(99.0, 30.0), (bad,)))] == ["checkpoints_stale"]
    assert [c for c, _ in group_faults(GroupsSeen(NOW, FRESH, error="no"))] == ["groups_unknown"]
    assert group_faults(GroupsSeen(NOW, Rounds(None, 30.0))) == []  # no group, nothing to be stale


def status(*groups: GroupStatus, **more: Any) -> FlowStatus:
    loss = Loss(0, 0, 0.0, exact=True, source_seen_seconds=0.0)
    seen = GroupsSeen(NOW, FRESH, groups, **more)
    return FlowStatus("a->b", "a", "b", NOW, "replicating", (), loss, None, None, groups=seen)


def test_lines_are_capped_and_the_rest_is_counted():
    many = [GroupStatus(f"g-{n:04}", "Stable", "classic", partitions=(part(),)) for n in range(2000)]
    many[1234] = GroupStatus("g-1234", partitions=(part(Readiness.REFUSED, "members"),))
    shown = group_lines(status(*many))
    assert shown["groups"] == "1,999 of 2,000 ready; last checkpoints 2 s ago"
    assert len(shown["positions"]) == 20
    assert shown["positions"][0] == {
        "group": "g-1234", "state": "–", "protocol": "–", "ready": "0/1", "will reprocess": "0",
        "remaining": "3", "checkpoint": "2 s ago", "why not": "members",
    }  # fmt: skip
    assert shown["not shown"] == "1,980 groups more, 1,980 of them ready: --all-groups, or --json"
    assert len(group_lines(status(*many), every=True)["positions"]) == 2000
    one = group_lines(status(*many), chosen=("g-0007",))
    assert [g["group"] for g in one["positions"]] == ["g-0007"]
    assert [(p["topic"], p["position"], p["written"]) for p in one["partitions"]] == [
        ("orders", "9", "5 s ago")
    ]


def test_what_is_unknown_is_said():
    assert group_lines(status(error="no broker of b answered"))["groups"].startswith("unknown: no broker")
    assert group_lines(status())["groups"].startswith("none has a committed offset")
    unknown = part()._replace(position=None, repeats=None, committed=None, left=None)
    line = group_lines(status(GroupStatus("g", partitions=(unknown,))), chosen=("g",))["partitions"][0]
    assert [line[k] for k in ("committed", "position", "will reprocess", "remaining")] == ["?"] * 4
    assert [ago(s) for s in (None, 0.4, 119, 600, 7201, 400_000)] == [
        "never", "0 s ago", "119 s ago", "10 min ago", "2 h ago", "5 d ago"
    ]  # fmt: skip
