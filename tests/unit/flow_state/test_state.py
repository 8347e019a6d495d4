"""What counts when records of a flow's state are replaced, deleted or damaged."""

from __future__ import annotations

import json

import pytest

from drkit.flow_state.records import (
    KINDS,
    EventRecord,
    GenerationRecord,
    LeaseRecord,
    ProducerIdsRecord,
    PromotionRecord,
    SkipsRecord,
)
from drkit.flow_state.state import Damaged, FlowState, StateChange
from tests.support.errors import coded
from tests.support.flow_state.old_bytes import RECORDS

GARBAGE = b"\x01\x02garbage"
WRONG = json.dumps({"current": ["x", 0], "all": []}).encode()


def whole() -> FlowState:
    return FlowState.of({key.encode(): value for key, value in RECORDS.items()}, "here")


def test_records_are_found_by_kind_and_name():
    state = whole()
    assert not state.unreadable
    assert sum(len(state.all(kind)) for kind in KINDS) == len(RECORDS)
    ids = state.get(ProducerIdsRecord)
    assert ids is not None
    assert ids.ids == (4001,)
    assert state.all(GenerationRecord).keys() == {"orders"}
    assert state.get(GenerationRecord, "payments") is None
    assert FlowState().get(ProducerIdsRecord) is None
    assert FlowState().all(EventRecord) == {}


@pytest.mark.parametrize("value", [GARBAGE, WRONG])
def test_the_record_before_a_damaged_one_counts(value: bytes):
    state = whole()
    assert state.take(b"producer-ids", value, 7) is None
    assert state.get(ProducerIdsRecord) == whole().get(ProducerIdsRecord)
    assert state.unreadable["producer-ids"].startswith("offset 7: ")
    assert state.value("producer-ids") == RECORDS["producer-ids"]
    state.refuse_damaged()
    state.take(b"producer-ids", RECORDS["producer-ids"])
    assert not state.unreadable


@pytest.mark.parametrize("value", [GARBAGE, WRONG])
def test_a_required_record_that_is_lost_is_an_error_and_never_a_default(value: bytes):
    state = FlowState("drkit-state.a.internal on b")
    state.take(b"producer-ids", value, 7)
    for ask in (
        lambda: state.get(ProducerIdsRecord),
        state.refuse_damaged,
        lambda: state.all(ProducerIdsRecord),
    ):
        with pytest.raises(Damaged, check=coded("state_foreign_record")) as refused:
            ask()
        assert refused.value.where == "drkit-state.a.internal on b"
        assert refused.value.evidence.startswith("key producer-ids, offset 7: ")
        assert "delete the copied topics" in refused.value.hint
    assert state.get(SkipsRecord) is None, "it was never written"
    state.take(b"producer-ids", None)
    assert state.get(ProducerIdsRecord) is None


def test_one_damaged_record_among_many_of_its_kind_is_an_error():
    """Otherwise the topic would be unknown, and left out in silence."""
    state = whole()
    state.take(b"topic/lost", b'{"target": 5}', 9)
    with pytest.raises(Damaged, check=coded("state_foreign_record")) as refused:
        state.all(GenerationRecord)
    assert refused.value.evidence == "key topic/lost, offset 9: target: a text was expected, not an integer"
    assert state.readable(GenerationRecord).keys() == {"orders"}
    assert state.get(GenerationRecord, "orders") is not None
    state.all(PromotionRecord)


def test_what_is_written_all_the_time_counts_as_missing_until_then():
    state = FlowState()
    state.take(b"lease", GARBAGE)
    state.take(b"event/resync/orders/0", GARBAGE)
    assert state.get(LeaseRecord) is None
    assert state.all(EventRecord) == {}
    state.refuse_damaged()
    assert state.unreadable.keys() == {"lease", "event/resync/orders/0"}


def test_keys_that_are_not_drkits():
    state = FlowState()
    assert state.take(b"of-a-later-drkit", b'{"x": 1}') is None
    assert not state.unreadable
    state.take(b"somebody's own", GARBAGE)
    state.take(b"\xff\xfe", b"[]")
    assert len(state.unreadable) == 2
    state.refuse_damaged()


def test_the_copies_of_another_flow_are_those_that_can_be_read():
    kept = {
        b"topic/orders": RECORDS["topic/orders"],
        b"lease": b"{}",
        b"topic/bad": b"no json",
        b"x": b"[]",
    }
    (found,) = FlowState.of(kept).readable(GenerationRecord).items()
    assert (found[0], found[1].target) == ("orders", "primary.orders")


def test_changes_are_reported_and_a_copy_does_not_follow_them():
    state = whole()
    before = state.copy()
    assert before == state
    assert state.take(b"skips", None) == StateChange("skips", None)
    change = state.take(b"event/resync/orders/0", RECORDS["event/resync/orders/0"])
    assert change is not None
    assert isinstance(change.record, EventRecord)
    assert state.get(SkipsRecord) is None
    assert before.get(SkipsRecord) is not None
    assert before != state
