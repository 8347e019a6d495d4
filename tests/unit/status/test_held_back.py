"""What an open transaction holds back: counted, bounded, noted, put into words. No clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from drkit.cli.screens.status import loss_text, view
from drkit.detect.reasons import FailoverFacts
from drkit.detect.risk import Sighting, of_answering_source, of_silent_source
from drkit.failover.checks.preconditions import GATES, PreconditionInput
from drkit.failover.checks.survey import ClusterIdentity
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.count import Lost, held_of, is_drained
from drkit.flow_state.names import (
    bulk_transactional_id,
    keep_transactional_id,
    map_transactional_id,
    replay_transactional_id,
)
from drkit.flow_state.records import SourceSeenRecord
from drkit.kafka.requests import ProducerState
from drkit.kafka.transactions import Ongoing, OpenProducer, Owner
from drkit.model import TopicPartition
from drkit.status.facts import seen_record, status_of
from drkit.status.faults import faults_of
from drkit.status.lag.held_back import (
    HeldInPartition,
    Holder,
    OpenTransaction,
    counted_held,
    fault_text,
    hanging,
    open_transaction,
)
from drkit.status.lag.source import NOTHING_HELD, Ends, HeldBack, held_text, held_total
from drkit.status.lag.target import CopyPosition
from drkit.status.model import Findings, FlowStatus, Runner
from drkit.status.sums import loss_of, topics_of
from drkit.wire import Record, encode, stamp

AT = TopicPartition("orders", 0)
NOW = 1_000_000
OTHERS = 900
"""Ids of producers: of transactions, and of others."""


def batch(
    first: int, count: int, producer: int, *, timestamp: int = 500, transactional: bool = True
) -> bytes:
    data = encode([Record(i, timestamp + i, b"k", b"v" * 10, ()) for i in range(count)], 0)
    made = stamp(data, producer, 0, 0, transactional=transactional)
    return first.to_bytes(8, "big") + bytes(made[8:])


def control(first: int, producer: int) -> bytes:
    data = bytearray(batch(first, 1, producer))
    data[22] |= 0x20
    return bytes(data)


def ends(end: int, mark: int | None, held: HeldBack | None = None) -> Ends:
    return Ends(0, end, mark, held)


# -- counting ----------------------------------------------------------------------------------------------


def test_acknowledged_records_differ_from_undecided_ones():
    data = batch(100, 2, 7, timestamp=300) + batch(102, 50, -1, timestamp=600, transactional=False)
    found = counted_held(ends(100, 152), data, frozenset(), {7: 100})
    assert (found.records, found.acknowledged, found.oldest_ms) == (52, 50, 600)
    assert found.bytes == len(data)


def test_a_transaction_without_others_after_it_holds_back_nothing_acknowledged():
    found = counted_held(ends(100, 105), batch(100, 5, 7), frozenset(), {7: 100})
    assert (found.records, found.acknowledged, found.oldest_ms) == (5, 0, None)


def test_an_earlier_transaction_of_the_same_producer_is_decided():
    data = batch(100, 1, 8) + batch(101, 3, 7, timestamp=400) + control(104, 7) + batch(105, 2, 7)
    found = counted_held(ends(100, 107), data, frozenset(), {8: 100, 7: 105})
    assert (found.records, found.acknowledged, found.oldest_ms) == (6, 3, 400)


def test_without_a_known_holder_all_counts_as_acknowledged():
    assert counted_held(ends(100, 105), batch(100, 5, 7), frozenset(), {}).acknowledged == 5


def test_what_the_flow_leaves_out_is_not_at_risk():
    data = batch(100, 5, 7) + batch(105, 5, OTHERS, transactional=False)
    assert counted_held(ends(100, 110), data, frozenset({7}), {}).records == 5


def test_behind_the_cut_nothing_is_left_out():
    data = batch(100, 5, 7) + batch(105, 5, 7, transactional=False)
    assert counted_held(ends(100, 110), data, frozenset({7}), {}).records == 0
    assert counted_held(ends(100, 110), data, frozenset({7}), {}, 105).records == 5
    assert counted_held(ends(100, 110), data, frozenset({7}), {}, 100).records == 10


def test_what_the_answer_does_not_reach_counts_by_its_offsets():
    found = counted_held(ends(100, 1000), batch(100, 5, 7, timestamp=300), frozenset(), {7: 100})
    assert (found.records, found.acknowledged, found.bytes) == (900, 895, None)
    assert found.oldest_ms == 300, "no older than the first of all"


@pytest.mark.parametrize("data", [b"", batch(100, 5, 7)[:-3], b"\x00" * 80])
def test_an_answer_that_cannot_be_read_is_no_zero(data: bytes):
    assert counted_held(ends(100, 105), data, frozenset(), {7: 100}) == HeldBack(5, 5, None, None)


@given(st.integers(0, 50), st.integers(0, 50), st.none() | st.integers(0, 120))
def test_held_back_is_high_watermark_less_last_stable_offset_less_what_is_copied(
    end: int, more: int, frontier: int | None
):
    found = ends(end, end + more).held_from(frontier)
    assert found.records == max(0, end + more - max(end, frontier or 0))
    assert found.acknowledged == found.records, "no look yet, so all of them may be acknowledged"


def test_a_note_without_high_watermarks_reads_as_before():
    seen = SourceSeenRecord.decode(b'{"at_ms": 1, "topics": {"orders": {"0": [3, 9]}}}')
    assert seen.ends == {AT: Ends(3, 9)}
    assert Ends(3, 9).held_from(9) == NOTHING_HELD


@given(st.none() | st.integers(9, 99), st.booleans(), st.none() | st.integers(-(2**63), 2**63 - 1))
@example(9, True, -1)  # noqa: FBT003  a batch without timestamps
def test_the_note_has_what_is_held_back(mark: int | None, looked: object, oldest_ms: int | None):
    held = HeldBack(5, 4, oldest_ms, None) if looked and mark is not None else None
    noted = {AT: Ends(3, 9, mark, held)}
    written = seen_record(noted, 7).encode()
    assert SourceSeenRecord.decode(written).ends == noted


# -- the status --------------------------------------------------------------------------------------------


def hung(**more: Any) -> OpenTransaction:
    fields = {
        "cluster": "a", "topic": "orders", "partition": 0, "producer_id": 7, "producer_epoch": 1,
        "coordinator_epoch": 2, "start_offset": 100, "transactional_id": "shop", "state": "Ongoing",
        "timeout_seconds": 900.0, "age_seconds": 61.0, "held_back": 52, "command": "END IT", **more,
    }  # fmt: skip
    return OpenTransaction(**fields)


def looked(held: HeldBack, *opened: OpenTransaction, **more: Any) -> Findings:
    part = status_of(NOW, AT, "orders", CopyPosition(100, 100), ends(100, 152, held), None)
    runner = Runner("h", 1, "r", 1.0, alive=True)
    return Findings(
        NOW, NOW, partitions=[part], beats_expected=False, runner=runner, source_seen_ms=NOW,
        open_transactions=opened, **more,
    )  # fmt: skip


def test_it_is_no_lag_and_counts_into_the_loss():
    found = looked(HeldBack(52, 50, NOW - 25_000, 4000))
    [part] = found.partitions
    assert (part.records, part.seconds, part.exact) == (0, 0.0, True), "replication has nothing to copy now"
    assert (part.source_end, part.high_watermark, part.held_back.records) == (100, 152, 52)
    assert topics_of(found.partitions)[0].held_back == 52
    loss = loss_of(found, found.partitions)
    assert (loss.records, loss.bytes, loss.seconds, loss.exact) == (52, 4000, 25.0, False)
    assert (loss.held_back, loss.acknowledged) == (52, 50)
    assert loss_text(loss, [hung(age_seconds=25.0)]) == (
        "up to 52 records, 3.9 KiB, the oldest 25.0 s old; of them up to 52 held back by an open transaction"
        " of producer id 7, transactional id shop, open for 25 s (50 acknowledged)"
    )


def test_undecided_records_are_counted_and_have_no_age():
    """No producer has an acknowledgement for them: a long transaction alone exceeds no budget."""
    found = looked(HeldBack(52, 0, None, 4000))
    loss = loss_of(found, found.partitions)
    assert (loss.records, loss.seconds) == (52, 0.0)


def test_acknowledged_records_of_unknown_age_have_no_age():
    found = looked(HeldBack(52, 52, None, None))
    assert loss_of(found, found.partitions).seconds is None


def faults(found: Findings, rpo_seconds: float = 30.0, **more: float) -> dict[str, str]:
    seen = faults_of(found, found.partitions, rpo_seconds=rpo_seconds, interval_seconds=1, **more)
    return {f.code: f.text for f in seen}


@pytest.mark.parametrize(
    ("age", "limit", "is_fault"), [(61.0, 60.0, True), (60.0, 60.0, False), (None, 60.0, False)]
)
def test_it_is_a_fault_after_the_allowed_time(age: float | None, limit: float, is_fault: object):
    found = looked(HeldBack(52, 0, None), hung(age_seconds=age))
    assert ("hanging_transaction" in faults(found, open_seconds=limit)) is is_fault


def test_the_fault_in_words():
    found = looked(HeldBack(52, 0, None), hung())
    assert faults(found) == {
        "hanging_transaction": "orders-0 on a: a transaction of producer id 7, transactional id shop is open"
        " for 61 s, more than 60 s; 52 records from offset 100 on are not copied until it ends; its"
        " coordinator aborts it after 900 s; end it: END IT"
    }
    many = [hung(), hung(age_seconds=99.0, topic="t", transactional_id=None, timeout_seconds=None)]
    text = fault_text(hanging(many, 60.0), 60.0)
    assert text.startswith("t-0 on a: a transaction of producer id 7 is open for 99 s")
    assert "no coordinator ends it" in text
    assert text.endswith("END IT; likewise orders-0 on a")
    there = fault_text([hung(cluster="b", source=False)], 60.0)
    assert "consumers of committed records there see nothing from offset 100 on" in there


def test_a_person_sees_who_is_open_before_it_is_a_fault():
    found = looked(HeldBack(52, 50, NOW - 5000, 4000), hung(age_seconds=5.0))
    loss = loss_of(found, found.partitions)
    status = FlowStatus(
        "a->b", "a", "b", NOW, "replicating", (), loss, None, None, topics_of(found.partitions),
        tuple(found.partitions), open_transactions=found.open_transactions,
    )  # fmt: skip
    told = view(status)
    assert told["health"] == "ok"
    assert told["open transactions"][0]["producer id"] == 7
    assert told["topics"][0]["held back"] == "52"
    calm = replace(found.partitions[0], held_back=NOTHING_HELD)
    without = view(replace(status, partitions=(calm,), open_transactions=()))
    assert "open transactions" not in without
    assert "held back" not in without["topics"][0]


OPENED = OpenProducer(AT, 1, 7, ProducerState(3, 9, 100, 4, NOW - 90_000))
KNOWN = Ongoing(Owner("my shop", "Ongoing"), 900_000, NOW - 61_000, frozenset({AT}))


@pytest.mark.parametrize(
    ("holder", "expected", "command"),
    [
        (
            Holder(OPENED, KNOWN), ("my shop", "Ongoing", 900.0, 61.0),
            "forceTerminateTransaction --transactionalId 'my shop'",
        ),
        (
            Holder(OPENED, KNOWN._replace(partitions=frozenset())), ("my shop", None, None, 90.0),
            "abort --topic orders --partition 0 --start-offset 100",
        ),
        (
            Holder(OPENED, None), (None, None, None, 90.0),
            "abort --topic orders --partition 0 --start-offset 100",
        ),
    ],
)  # fmt: skip
def test_a_coordinator_ends_what_it_knows_and_a_marker_the_rest(
    holder: Holder, expected: object, command: str
):
    held = HeldInPartition(HeldBack(52), (holder,))
    found = open_transaction(("a", "h:1,i:2"), AT, held, holder, NOW, source=True)
    assert (found.transactional_id, found.state, found.timeout_seconds, found.age_seconds) == expected
    assert found.command == f"kafka-transactions.sh --bootstrap-server h:1,i:2 {command}"
    assert (found.producer_id, found.producer_epoch, found.coordinator_epoch) == (7, 3, 4)


@pytest.mark.parametrize("is_current", [True, False])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        (replay_transactional_id("a", "b", AT), "drkit replay --from MANIFEST --flow 'a->b'"),
        (keep_transactional_id("a", "b", AT, "run"), "drkit reprotect --resume --flow 'a->b'"),
        (bulk_transactional_id("a", "b", 3), "drkit replicate --flow 'a->b'"),
        (map_transactional_id("a-1", "b_2", 3), "drkit replicate --flow 'a-1->b_2'"),
    ],
)
def test_drkit_ends_its_own_as_decided(name: str, command: str, *, is_current: bool):
    """An abort by hand would remove records that count as copied."""
    partitions = KNOWN.partitions if is_current else frozenset[TopicPartition]()
    holder = Holder(OPENED, KNOWN._replace(owner=Owner(name, "Ongoing"), partitions=partitions))
    held = HeldInPartition(HeldBack(52), (holder,))
    found = open_transaction(("a", "h:1"), AT, held, holder, NOW, source=True)
    assert found.command == command
    text = fault_text([found], 60.0)
    assert text.endswith(f"its records may count as copied, so abort nothing by hand; end it: {command}")


# -- the failover ------------------------------------------------------------------------------------------


def test_a_silent_source_loses_what_was_held_back():
    seen = Sighting(NOW, NOW - 100, NOW - 100, dead_since_ms=NOW - 100)
    held = HeldBack(52, 50, NOW - 40_000)
    found = of_silent_source(seen, 0, held)
    assert (found.records, found.held_back, found.acknowledged) == (52, 52, 50)
    assert found.seconds == 39.9, "heartbeats of another topic went on passing"
    assert of_silent_source(seen, 0, HeldBack(52, 0)).seconds == 0.0, "nothing of that was acknowledged"
    assert of_silent_source(seen, 0, HeldBack(52, 50)).seconds is None
    assert of_silent_source(seen, None, held).records is None


def test_an_answering_source_with_something_held_back_is_not_exact():
    found = of_answering_source(52, 40.0, exact=True, reason="", held=HeldBack(52, 50, NOW - 40_000))
    assert (found.records, found.seconds, found.exact, found.held_back) == (52, 40.0, False, 52)


def test_partitions_of_a_loss_add_up():
    one = Lost("orders", 0, 100, 100, 0, exact=True).held(ends(100, 152, HeldBack(52, 50, 700)), 100)
    two = Lost("orders", 1, 5, 5, 0, exact=True).held(ends(5, 5), 5)
    assert (one.held_back, one.held_acknowledged, one.high_watermark) == (52, 50, 152)
    assert held_of([one, two]) == HeldBack(52, 50, 700, None)
    assert held_of([two]) == NOTHING_HELD
    assert is_drained([two])
    assert not is_drained([two, one._replace(open_transaction=True)])
    assert held_total([HeldBack(1, 1, None), HeldBack(1, 1, 5)]).oldest_ms is None


def test_the_refusal_says_how_much_was_held_back():
    risk = of_silent_source(Sighting(NOW, NOW, NOW, dead_since_ms=NOW), 0, HeldBack(52, 50, NOW - 40_000))
    source, target = ClusterIdentity("a", None, "1"), ClusterIdentity("b", "2", "2")
    known = {"risk": risk, "facts": FailoverFacts(risk, 30.0), "source_error": "nothing listens"}
    known |= {"source": source, "target": target}
    survey: Any = type("Seen", (), known)()
    scope: Any = None
    [refusal] = GATES["failover-data-loss"](PreconditionInput(survey, scope, RunRequest(), "a->b"))
    assert "up to 40.0 s, rpo_seconds = 30; 52 records known to be missing, of them" in refusal.evidence
    assert held_text(52, 50) in refusal.evidence
    assert held_text(0, 0) == ""
