"""Records count only with a MAC of the control key: whatever others write changes nothing that is read."""

from __future__ import annotations

from collections.abc import Sequence
import re
from typing import Final
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit import observe
from drkit.config import FlowSettings
from drkit.control_key import (
    HEADER,
    NO_KEY,
    ControlKey,
    ControlKeys,
    Headers,
    LogPlace,
    WeakKey,
    mac_of,
    read_mac,
)
from drkit.detect.note_kinds import Pause
from drkit.detect.notes import Notes
from drkit.detect.votes import Vote
from drkit.flow_state.records import AclsRecord, PromotionRecord, RoleRecord
from drkit.flow_state.state import Damaged, FlowState
from drkit.flow_state.topic import Dropped
from drkit.journal.entries import EntryKind, JournalEntry, read_history
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, pairs
from drkit.offsets import History, MapKey
from drkit.offsets.map_record import BUCKET_KEY, Intent, Mode, Reign
from tests.support.detect.any_notes import VOTE
from tests.support.errors import coded
from tests.support.flow_state.keys import KEYS, PLACE, TOPIC, earlier_form, signatures
from tests.support.flow_state.old_bytes import RECORDS

OTHER: Final = ControlKeys(ControlKey.of(b"another key, another key, another key"))
FLOW: Final = FlowSettings(source="a", target="b")
maybe = st.none() | st.binary(max_size=40)


def headers(
    keys: ControlKeys, key: bytes | None, value: bytes | None, place: LogPlace = PLACE, order: int = 7
) -> list[tuple[str, bytes]]:
    return [(HEADER, mac_of(keys.current, place, key, value, order))]


def place(topic: bytes, cluster: bytes, topic_id: bytes) -> LogPlace:
    at = TopicPartition(topic.decode("latin-1"), 0)
    return LogPlace(at, cluster.decode("latin-1"), UUID(bytes=topic_id))


# -- the MAC ------------------------------------------------------------------------------------------


@given(maybe, maybe, st.data())
def test_any_flipped_bit_is_seen(key: bytes | None, value: bytes | None, data: st.DataObject):
    ((name, mac),) = headers(KEYS, key, value)
    assert read_mac(KEYS, PLACE, key, value, [(name, mac)]) == 7
    assert read_mac(KEYS, PLACE, key, value, [(name.encode(), mac)]) == 7
    parts = {
        "topic": TOPIC.encode(), "cluster": PLACE.cluster_id.encode(), "key": key or b"",
        "value": value or b"", "mac": mac, "id": PLACE.topic_id.bytes,
    }  # fmt: skip
    which = data.draw(st.sampled_from([n for n, part in parts.items() if part]))
    bit = data.draw(st.integers(0, 8 * len(parts[which]) - 1))
    flipped = bytearray(parts[which])
    flipped[bit // 8] ^= 1 << bit % 8
    changed = {**parts, which: bytes(flipped)}
    found = read_mac(
        KEYS, place(changed["topic"], changed["cluster"], changed["id"]),
        changed["key"] if key is not None else None, changed["value"] if value is not None else None,
        [(name, changed["mac"])],
    )  # fmt: skip
    assert isinstance(found, str)


@given(maybe, maybe, maybe, maybe)
def test_no_two_records_have_the_same_mac(a: bytes | None, b: bytes | None, c: bytes | None, d: bytes | None):
    """Bytes do not move between key and value, and a tombstone is not an empty value."""
    assert (headers(KEYS, a, b) == headers(KEYS, c, d)) == ((a, b) == (c, d))


@pytest.mark.parametrize(
    ("given_headers", "why"),
    [
        (None, "no MAC"),
        ([], "no MAC"),
        ([("other", b"x")], "no MAC"),
        ([(HEADER, None)], "not of a form"),
        ([(HEADER, b"")], "not of a form"),
        ([(HEADER, b"\x02" + bytes(20))], "not of a form"),
        ([(HEADER, b"\x04" + bytes(28))], "not of a form"),
        (2 * headers(KEYS, b"k", b"v"), "not of a form"),
        (headers(OTHER, b"k", b"v"), "does not name"),
        (headers(KEYS, b"k", b"v", PLACE._replace(at=TopicPartition("drkit-state.b.internal", 0))), "wrong"),
        (headers(KEYS, b"k", b"v", PLACE._replace(cluster_id="cluster-c")), "wrong"),
        (headers(KEYS, b"k", b"v", PLACE._replace(topic_id=UUID(int=8))), "this topic and its id"),
        (headers(KEYS, b"k", None), "wrong"),
        (earlier_form(b"k", None), "wrong"),
    ],
)
def test_why_a_record_does_not_count(given_headers: Headers | None, why: str):
    assert why in signatures().refused(b"k", b"v", given_headers)
    assert not signatures().reserve(0, b"k", b"v", given_headers, 0)


def test_a_process_without_the_key_names_signed_records_and_writes_as_before():
    unsigned = signatures(None)
    assert unsigned.refused(b"k", b"v", headers(KEYS, b"k", b"v")) == NO_KEY
    assert unsigned.refused(b"k", b"v", None) == ""
    assert (unsigned.headers(b"k", b"v"), unsigned.text_headers(b"k", b"v")) == ((), None)


def test_while_the_key_changes_both_count_and_the_first_signs():
    both = ControlKeys(KEYS.current, (OTHER.current,))
    old = headers(OTHER, b"k", b"v")
    assert signatures(both).refused(b"k", b"v", old) == ""
    assert signatures(both).headers(b"k", b"v") == signatures().headers(b"k", b"v")
    assert signatures().refused(b"k", b"v", old)


def test_a_key_is_strong_and_never_shown():
    for weak in (b"", b"x" * 31, bytes(64), b"abab" * 20, b" " * 40):
        with pytest.raises(WeakKey):
            ControlKey.of(weak)
    assert ControlKey.of(b"0123456789abcdef0123456789abcdef\n") == KEYS.current, "white space does not count"
    assert repr(KEYS) == f"ControlKeys(current=ControlKey({KEYS.current.fingerprint}), previous=())"
    assert len(KEYS.current.fingerprint) == 8


# -- what is read beside forged records ---------------------------------------------------------------

names = st.sampled_from([*RECORDS, "role/other", "event/x/t/0", "nothing of drkit's", "\udcff"])
forged = st.lists(
    st.tuples(names, st.none() | st.binary(max_size=20) | st.sampled_from(list(RECORDS.values())))
)


@given(forged, st.sampled_from([False, True]))
def test_forged_records_change_nothing_of_a_flows_state(
    written: Sequence[tuple[str, bytes | None]],
    live: bool,  # noqa: FBT001  drawn
):
    genuine = FlowState.of({key.encode(): value for key, value in RECORDS.items()})
    found = genuine.copy()
    for number, (key, _value) in enumerate(written):
        if live or key in RECORDS:
            found.refuse(key.encode("utf-8", "surrogateescape"), "it has no MAC", number, live=live)
    assert found == genuine
    found.refuse_damaged()
    assert found.all(RoleRecord) == genuine.all(RoleRecord)


def test_what_a_forged_record_has_erased_is_refused_by_name_never_taken_for_missing():
    """Compaction has removed the genuine one: to assume no pending fence or no promotion would be a guess."""
    found = FlowState("drkit-state.a.internal on b")
    for key in (b"promotion", b"role/orders", b"acls", b"lease"):
        found.refuse(key, "it has no MAC", 7)
    for kind, name in ((PromotionRecord, ""), (RoleRecord, "orders"), (AclsRecord, "")):
        with pytest.raises(Damaged, check=coded("state_unsigned")) as refused:
            found.get(kind, name)
        assert "drkit control adopt" in refused.value.hint
    with pytest.raises(Damaged):
        found.all(RoleRecord)
    found.take(b"promotion", RECORDS["promotion"])
    assert found.get(PromotionRecord) is not None, "a genuine record ends it"


def test_a_process_without_the_key_does_not_go_by_older_records():
    found = FlowState.of({key.encode(): value for key, value in RECORDS.items()})
    found.refuse(b"role/orders", NO_KEY, 7)
    with pytest.raises(Damaged, check=coded("state_unsigned")) as refused:
        found.get(RoleRecord, "orders")
    assert "names no control key" in refused.value.evidence
    bucket = MapBucket(0, "map")
    (pair,) = pairs([(WHERE, intent(0))])
    bucket.apply(*pair, 0)
    bucket.refuse(pair[0], 1, NO_KEY)
    assert bucket.doubt(WHERE) is not None


def test_a_forged_record_under_a_new_key_is_nothing_to_who_was_reading():
    found = FlowState()
    found.refuse(b"promotion", "it has no MAC", 7, live=True)
    assert found.get(PromotionRecord) is None
    assert found.forged == {"promotion": "offset 7: it has no MAC"}
    found.refuse(b"nothing of drkit's", "it has no MAC", 8, live=True)
    assert found.forged.keys() == {"promotion"}
    found.take(b"promotion", None)
    assert not found.forged, "its tombstone with a MAC ends it"


def test_forged_notes_are_counted_and_named_and_hide_none():
    told: list[tuple[str, str]] = []
    notes = Notes(lambda key, why: told.append((key, why)))
    notes.take(b"vote/b", VOTE.encode())
    for key in (b"vote/b", b"vote/x1", b"agent/dc1", b"known"):
        notes.refuse(key, "it has no MAC")
    assert [n.body for n in notes.all(Vote)] == [VOTE]
    assert (notes.dropped, told) == (
        4,
        [(k, "it has no MAC") for k in ("vote/b", "vote/x1", "agent/dc1", "known")],
    )
    notes.refuse(b"pause", "it has no MAC", live=True)
    assert notes.pause == "", "there was none before"
    notes.refuse(b"pause", "it has no MAC")
    assert notes.damaged(Pause), "a pause that it has erased would let mode auto act"


SOURCE, TARGET = UUID(int=1), UUID(int=2)
WHERE = MapKey(SOURCE, TARGET, 0)


def intent(downstream: int) -> Intent:
    return Intent(Mode.LIVE, 5, History(9, 0), downstream, downstream, downstream + 1, -1, ((downstream, 0),))


def shown(bucket: MapBucket) -> str:
    """What it says of every partition, without addresses of objects."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(bucket.partitions))


def test_a_forged_map_record_hides_none_that_was_read_and_what_is_left_alone_is_doubtful():
    genuine = pairs(
        [(BUCKET_KEY, Reign(5, 1, ended=False, unclean=0)), (WHERE, intent(0)), (WHERE, intent(1))]
    )
    bucket, reference = MapBucket(0, "map"), MapBucket(0, "map")
    for found in (bucket, reference):
        for offset, (key, value) in enumerate(genuine):
            found.apply(key, value, offset)
    for key, _ in genuine:
        bucket.refuse(key, 9, "it has no MAC")
    assert shown(bucket) == shown(reference)
    assert (bucket.reign, bucket.legacy) == (reference.reign, False)
    assert (bucket.doubt(WHERE), bucket.refused) == (None, 3)
    erased = MapBucket(0, "map")
    erased.refuse(genuine[1][0], 9, "it has no MAC")
    erased.refuse(genuine[0][0], 10, "it has no MAC")
    doubt = erased.doubt(WHERE)
    assert doubt is not None
    assert "no valid MAC: map-0 at offset 9" in doubt.reason
    assert erased.legacy, "who may still be at work is not known"
    erased.apply(*genuine[1], 11)
    assert erased.doubt(WHERE) is None


def test_an_entry_of_the_journal_that_is_written_again_says_nothing_new():
    run = JournalEntry("r", 0, "t", 1, EntryKind.RUN, None, "", 1, {"holder": {"token": "t"}})
    held = JournalEntry("r", 1, "t", 1, EntryKind.HELD, None, "", 2, {"why": "x"})
    hold = JournalEntry("r", 2, "u", 1, EntryKind.HOLD, None, "", 3, {"holder": {"token": "u"}})
    found = read_history([run, held, hold, held, run, hold])
    assert found.runs["r"].entries == [run, held, hold]
    assert found.open is not None
    assert found.open.state == "running", "the older reason to hold was over"


def test_only_the_first_ones_are_events_and_then_ever_fewer(monkeypatch: pytest.MonkeyPatch):
    """A pair with its first key has hundreds of records without a MAC: some are shown, and the count."""
    counts: list[object] = []
    monkeypatch.setattr(observe, "event", lambda *_, count, **__: counts.append(count))
    dropped = Dropped("a topic")
    for offset in range(2000):
        dropped.add("key", f"offset {offset}: it has no MAC")
    assert counts == [1, 2, 3, 4, 5, 10, 100, 1000]
    assert dropped.count == 2000
