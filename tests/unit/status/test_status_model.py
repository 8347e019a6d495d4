"""From findings to faults, sums and texts; from a fetch answer to what waits in it. No clusters."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit import observe
from drkit.cli.screens.status import Shown, loss_text, view
from drkit.config import ClusterSettings, FlowSettings
from drkit.counted import size_text
from drkit.flow_state.records import PendingFence, PendingLift
from drkit.kafka.admin import Cluster
from drkit.local.ports import PortReservation
from drkit.min_max_mean import MinMaxMean
from drkit.mm2_topics import heartbeats
from drkit.mm2_topics.heartbeats import HeartbeatEmitter
from drkit.model import TopicPartition
from drkit.monitoring.metrics import Count, FlowCollector, FlowFigures
from drkit.status.facts import seen_record, status_of
from drkit.status.faults import faults_of
from drkit.status.lag.source import EarlierEnds, Ends, UncopiedRange, UncopiedRecords, counted_gap
from drkit.status.lag.target import CopyPosition
from drkit.status.model import (
    Findings,
    FlowStatus,
    HeartbeatStatus,
    Loss,
    PartitionStatus,
    Runner,
    role_of,
)
from drkit.status.progress import Moved
from drkit.status.sums import loss_of, topics_of
from drkit.wire import Record, encode
from tests.support.waiting import eventually

RUNNER = Runner("h", 1, "r", 1.0, alive=True)
NOW = 1_000_000
LIFT = PendingLift("run8", NOW - 60_000, "it does not answer", ("orders",))
DEBT = PendingFence("run7", 3, NOW - 120_000, "it was cut off", ("orders", "payments"))


def part(topic: str = "orders", records: int | None = 0, partition: int = 0, **more: Any) -> PartitionStatus:
    fields = {"bytes": records, "seconds": None if records is None else 1.0 * bool(records), **more}
    return PartitionStatus(topic, topic, partition, 5, 9, 5, records, **fields)


def healthy(**more: Any) -> Findings:
    fields = {
        "partitions": [part()],
        "heartbeat": HeartbeatStatus(1.0),
        "runner": RUNNER,
        "source_seen_ms": NOW,
        **more,
    }
    return Findings(NOW, NOW, **fields)


def codes(found: Findings, rpo_seconds: float = 30.0) -> list[str]:
    return [f.code for f in faults_of(found, found.partitions, rpo_seconds=rpo_seconds, interval_seconds=1.0)]


def test_healthy():
    assert codes(healthy()) == []
    assert role_of(healthy()) == "replicating"
    assert role_of(healthy(promoted=("orders",))) == "replicating", "the other topics are copied"
    assert role_of(healthy(promoted=("orders",), taken_over=True)) == "promoted"
    assert role_of(healthy(promoted=("orders",), runner=None)) == "stopped", "a part has moved"


def test_a_topic_that_has_moved_has_no_lag():
    assert codes(healthy(partitions=[part(records=None)], promoted=("orders",))) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"target_error": "gone"}, "target_unreachable"),
        ({"source_error": "gone"}, "source_unreachable"),
        ({"runner": None}, "not_running"),
        ({"runner": replace(RUNNER, alive=False)}, "not_running"),
        ({"heartbeat": None}, "heartbeat_missing"),
        ({"heartbeat": HeartbeatStatus(10.1)}, "heartbeat_stale"),
        ({"heartbeat_ahead_seconds": 3600.0}, "heartbeat_ahead"),
        ({"partitions": [part(records=7, seconds=31.0)]}, "rpo_exceeded"),
        (
            {"partitions": [part(records=7, seconds=31.0), part(records=9, seconds=None, partition=1)]},
            "rpo_exceeded",
        ),
        ({"partitions": [part(records=7, seconds=None, held_back_seconds=31.0)]}, "rpo_exceeded"),
        ({"partitions": [part(records=None)]}, "lag_unknown"),
        ({"partitions": [part(records=7, seconds=None, reason="READ is denied")]}, "lag_unknown"),
        ({"left_out": ("new",)}, "topics_left_out"),
        ({"pending_fence": DEBT}, "fence_owed"),
        ({"lift": LIFT}, "fence_lift_pending"),
    ],
)
def test_each_fault(change: dict[str, Any], code: str):
    assert codes(healthy(**change)) == [code]


def test_one_wait_of_unknown_age_hides_no_known_one():
    late = [part(records=7, seconds=31.0), part(records=9, seconds=None, partition=1)]
    found = healthy(partitions=late)
    [fault] = faults_of(found, late, rpo_seconds=30.0, interval_seconds=1.0)
    assert fault.text == "the oldest record not copied is at least 31.0 s old, rpo_seconds = 30"
    assert loss_of(found, late).seconds is None


def test_an_age_that_was_not_read_because_too_many_partitions_wait_is_no_fault():
    assert codes(healthy(partitions=[part(records=7, seconds=None)])) == []


@pytest.mark.parametrize(
    ("oldest_ms", "unread", "reason"),
    [
        (None, "READ is denied", "READ is denied"),
        (NOW + 3_600_000, "", "its oldest record has a time in the future"),
        (None, "", ""),
        (NOW, "", ""),
    ],
)
def test_an_unknown_age_has_a_reason(oldest_ms: int | None, unread: str, reason: str):
    at, ends = TopicPartition("t", 0), Ends(0, 9)
    waits = {at: UncopiedRecords(4, None, oldest_ms, exact=False, reason=unread)}
    dated = EarlierEnds().dated(NOW, NOW, {at: ends}, [UncopiedRange(at, 5, 9)], waits)
    found = status_of(NOW, at, "t", CopyPosition(5, 5), ends, dated[at])
    assert (found.seconds is None, found.reason) == (oldest_ms != NOW, reason)


def test_no_heartbeats_are_missed_where_none_are_written():
    assert codes(healthy(heartbeat=None, beats_expected=False)) == []


def test_a_pending_fence_is_shown_with_its_run_and_command():
    owed = healthy(pending_fence=DEBT, flow="a->b")
    loss = loss_of(owed, owed.partitions)
    [fault] = faults_of(owed, owed.partitions, rpo_seconds=30.0, interval_seconds=1.0)
    said = "the source was never fenced, pending since run run7 (term 3), 2 topics: orders, payments; {}: {}"
    assert fault.text == said.format("it answers, so now", "drkit fence pay --flow 'a->b'")
    silent = healthy(pending_fence=DEBT, flow="a->b", source_error="gone")
    _, fault = faults_of(silent, silent.partitions, rpo_seconds=30.0, interval_seconds=1.0)
    assert fault.text == said.format("once it answers", "drkit fence pay --flow 'a->b'")

    status = FlowStatus("a->b", "a", "b", NOW, "promoted", (fault,), loss, None, None, pending_fence=DEBT)
    told = view(status)
    assert told["fence pending"] == (
        "on a for 2 min, since run run7 (term 3), 2 topics: orders, payments; seen then: it was cut off"
    )
    assert "fence pending" not in view(replace(status, pending_fence=None))
    assert status.as_dict()["pending_fence"]["run_id"] == "run7"
    assert list(status.as_dict()["pending_fence"]["topics"]) == ["orders", "payments"]
    for debt, topics in ((DEBT, 2.0), (None, 0.0)):
        figures = FlowFigures(replace(status, pending_fence=debt), 1.0)
        [family] = [
            f for f in FlowCollector(lambda f=figures: [f], lambda: 1.0).collect()  # type: ignore[misc]
            if f.name == "drkit_fence_owed_topics"
        ]  # fmt: skip
        assert [s.value for s in family.samples] == [topics]


def test_a_dead_source_makes_the_loss_a_lower_bound_with_an_age():
    found = healthy(source_error="gone", source_seen_ms=NOW - 12_000, partitions=[part(records=3)])
    loss = loss_of(found, found.partitions)
    assert (loss.records, loss.exact, loss.source_seen_seconds) == (3, False, 12.0)
    never = loss_of(healthy(source_error="gone", source_seen_ms=None), [])
    assert (never.records, never.source_seen_seconds) == (None, None)


def test_what_is_not_known_is_never_a_zero():
    (topic,) = topics_of([part(records=4, partition=0), part(records=None, partition=1, reason="no leader")])
    assert (topic.records, topic.bytes, topic.seconds) == (None, None, None)
    assert (topic.unknown_partitions, topic.reason) == (1, "no leader")
    unknown = status_of(
        NOW, TopicPartition("t", 0), "t", CopyPosition(None, 3, reason="why"), Ends(0, 9), None
    )
    assert (unknown.records, unknown.reason, unknown.exact) == (None, "why", False)


def batch(first: int, count: int, *, timestamp: int = 500) -> bytes:
    made = encode([Record(i, timestamp + i, b"k", b"v" * 10, ()) for i in range(count)], 0)
    return first.to_bytes(8, "big") + bytes(made[8:])


def test_the_answer_has_records_bytes_and_age():
    at = TopicPartition("t", 0)
    found = counted_gap(UncopiedRange(at, 10, 30), batch(10, 20), [], frozenset())
    assert (found.records, found.oldest_ms, found.exact) == (20, 500, True)
    assert found.bytes is not None
    assert found.bytes > 200


def test_a_part_of_the_gap_makes_an_estimate():
    found = counted_gap(UncopiedRange(TopicPartition("t", 0), 10, 50), batch(10, 20), [], frozenset())
    assert (found.records, found.exact) == (40, False)


def test_an_answer_that_begins_before_the_gap_is_cut():
    found = counted_gap(UncopiedRange(TopicPartition("t", 0), 25, 30), batch(10, 20), [], frozenset())
    assert (found.records, found.oldest_ms, found.exact) == (5, 515, True)


def test_nothing_fetched_is_no_zero():
    found = counted_gap(UncopiedRange(TopicPartition("t", 0), 25, 30), b"", [], frozenset())
    assert (found.records, found.bytes, found.exact) == (5, None, False)
    assert found.reason == "no whole batch of it could be read"


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=5), st.integers(0, 99)), st.tuples(st.integers(0), st.integers(0))
    )
)
def test_the_note_of_the_source_reads_back(places: dict[tuple[str, int], tuple[int, int]]):
    ends = {TopicPartition(*at): Ends(*place) for at, place in places.items()}
    assert seen_record(ends, 7).ends == ends


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_a_spread(values: list[int]):
    spread = MinMaxMean()
    for value in values:
        spread.add(value)
    assert (spread.least, spread.most, spread.count) == (min(values), max(values), len(values))
    assert spread.mean == pytest.approx(sum(values) / len(values))


def test_counts_move_within_an_epoch_and_never_back():
    count = Count(100)
    count.see(150, None, 5.0)
    assert (count.records, count.records_per_second) == (50, 10.0)
    # The report knows that two of the 50 offsets were markers.
    count.see(150, Moved(48, 4800, 150), 5.0)
    assert (count.records, count.bytes) == (50, 4800)
    count.see(170, Moved(48, 4800, 150), 5.0)
    assert (count.records, count.bytes) == (68, 6800)


def status(**more: Any) -> FlowStatus:
    fields: dict[str, Any] = {
        "faults": (),
        "loss": Loss(0, 0, 0.0, exact=True, source_seen_seconds=0.0),
        "heartbeat": HeartbeatStatus(0.5, 0.03),
        "runner": RUNNER,
        "topics": topics_of([part(records=1500, exact=False)]),
        "partitions": (part(),),
        **more,
    }
    return FlowStatus("a->b", "a", "b", NOW, "replicating", **fields)


def test_what_a_person_reads():
    shown = view(status())
    assert shown["loss if the primary died now"] == "0 records"
    assert (shown["heartbeat"], shown["replication delay"]) == ("0.5 s old", "30 ms")
    assert (
        view(status(heartbeat=HeartbeatStatus(40.0)))["replication delay"] == "unknown: no heartbeat arrives"
    )
    assert shown["topics"][0]["lag"] == "~1,500"
    assert shown["groups"] == "not looked after, or not yet"
    assert view(status(), Shown(partitions=True))["topics"][0]["frontier"] == 5
    assert view(status(runner=None, heartbeat=None))["run_by"] == "no run holds the lease"
    assert "left out" not in shown
    left_out = replace(status(), left_out_producers=tuple(range(4711, 4718)))
    assert view(left_out)["left out"].endswith("(7 producers)")
    assert left_out.as_dict()["left_out_producers"] == tuple(range(4711, 4718))


def test_the_loss_in_a_sentence():
    assert loss_text(Loss(None, None, None, exact=False, source_seen_seconds=None)) == "unknown"
    told = loss_text(Loss(1200, 4096, 2.5, exact=False, source_seen_seconds=31.0))
    assert told.startswith(
        "about 1,200 records, 4.0 KiB, the oldest 2.5 s old; the source was last seen 31 s ago"
    )
    assert (size_text(0), size_text(1023), size_text(1 << 30)) == ("0 B", "1023 B", "1.0 GiB")


def test_lost_heartbeats_are_an_event(monkeypatch: pytest.MonkeyPatch):
    # As it is with seconds of its own, so that nobody waits for those of a real cluster.
    monkeypatch.setattr(heartbeats, "_SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(Cluster, "connect", partial(Cluster.connect, timeout_seconds=1.0))

    def lost() -> float:
        return observe.REGISTRY.get_sample_value("drkit_events_total", {"kind": "heartbeats_lost"}) or 0.0

    before, port = lost(), PortReservation().reserve()
    flow = FlowSettings(source="dead", target="b", heartbeats_interval_seconds=0.2)
    emitter = HeartbeatEmitter(ClusterSettings(alias="dead", bootstrap_servers=f"127.0.0.1:{port}"), flow)
    emitter.start()
    try:
        eventually(lambda: lost() > before, 40, "the event")
    finally:
        emitter.stop()


def test_figures_follow_the_living_partitions():
    figures = FlowFigures(
        FlowStatus(
            "a->b",
            "a",
            "b",
            NOW,
            "replicating",
            (),
            Loss(0, 0, 0, exact=True, source_seen_seconds=0),
            None,
            None,
        ),
        0.0,
    )
    for number in range(5):
        status = replace(figures.status, partitions=(part("stays"), part(f"t{number}")))
        figures.renew(status, float(number), None)
    assert [at.topic for at in figures.counts] == ["stays", "t4"]
    figures.renew(replace(figures.status, partitions=()), 6.0, None)
    assert len(figures.counts) == 2, "a look without an answer says nothing"
