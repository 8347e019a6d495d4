"""A foreign writer to the topic of the observers ends no process, and hides no note of another."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.detect.note_kinds import Automatic, KnownBrokers, Pause
from drkit.detect.notes import Notes, read_note
from drkit.detect.votes import Vote
from drkit.flow_state.codec.fields import EXACT, Malformed
from drkit.flow_state.codec.record import StateRecord
from tests.support.detect.any_notes import (
    AGENT,
    AUTOMATIC,
    GOOD,
    HARD,
    KNOWN,
    NOW_MS,
    PAUSE,
    VOTE,
    records,
)


@pytest.mark.parametrize(("key", "note"), GOOD.items())
def test_what_is_written_is_read_back(key: str, note: StateRecord):
    assert read_note(key, note.encode()) == note


@given(st.lists(records(), max_size=6))
def test_nothing_that_is_written_raises_or_hides_another_note(written: list[tuple[bytes, bytes | None]]):
    reports: list[str] = []
    notes = Notes(lambda key, _why: reports.append(key))
    notes.take(b"vote/good", Vote("good", "r", 1, NOW_MS, VOTE.sight).encode(), 1.0, NOW_MS, live=True)
    for key, value in written:
        notes.take(key, value, 2.0, NOW_MS, live=True)
    found = [note.body for note in notes.all(Vote)]
    assert "good" in {vote.observer for vote in found}
    for vote in found:
        assert 0 <= vote.sequence <= EXACT
        assert vote.abstained_seconds >= 0
    # All that is read can be shown, sent on and journalled.
    assert isinstance(notes.pause, str)
    assert notes.automatic is None or notes.automatic.at_ms >= 0
    for name, note in notes.by_key().items():
        text = json.dumps(note.body.to_json(), allow_nan=False, ensure_ascii=False)
        text.encode()
        assert "\x1b" not in text
        assert read_note(name, note.body.encode()) == note.body
    assert len(reports) == len(set(reports)), "once per key"


@pytest.mark.parametrize("key", GOOD)
@pytest.mark.parametrize("value", HARD, ids=range(len(HARD)))
def test_a_bad_note_is_named_and_the_one_before_it_counts(key: str, value: bytes):
    reports: list[tuple[str, str]] = []
    notes = Notes(lambda *why: reports.append(why))
    notes.take(key.encode(), GOOD[key].encode())
    for _ in range(3):
        notes.take(key.encode(), value)
    assert [k for k, _ in reports] == [key]
    assert reports[0][1]
    assert notes.by_key()[key].body == GOOD[key]


@pytest.mark.parametrize(
    ("key", "more", "why"),
    [
        ("vote/b", {"sequence": -1}, "sequence: an integer from 0"),
        ("vote/b", {"sequence": 1.0}, "sequence: an integer was expected, not a fraction"),
        ("vote/b", {"sequence": 2**53}, "sequence: an integer from 0"),
        ("vote/b", {"abstained_seconds": 10**400}, "abstained_seconds: a finite number"),
        ("vote/b", {"phi": "9"}, "phi: a number was expected"),
        ("vote/b", {"sight": "perhaps"}, "sight: one of clear"),
        ("vote/b", {"evidence": 5}, "evidence: a list was expected"),
        ("vote/b", {"renews": {"dc1": -1}}, "renews: dc1: an integer from 0"),
        ("vote/b", {"renews": {f"a{n}": 1 for n in range(1001)}}, "renews: at most 1000 entries"),
        ("vote/b", {"observer": "c"}, "another writer than its key"),
        ("vote/b", {"observer": "\x1b[2Jb"}, "without control characters"),
        ("agent/dc9", {"number": 1e15}, "number: an integer was expected, not a fraction"),
        ("agent/dc9", {"fenced": 1}, "fenced: true or false"),
        ("agent/dc9", {"agent": "dc8"}, "another writer than its key"),
        ("known", {"brokers": [1]}, "brokers: [0]: a list was expected"),
        ("known", {"brokers": [["own", "h:99999", 1]]}, "[0]: [1]: an address as host:port"),
        ("known", {"brokers": [["own", "a\nb:1", 1]]}, "[0]: [1]: an address as host:port"),
        ("known", {"brokers": [["own", "h:1", -1]]}, "[0]: [2]: an integer from 0"),
        ("known", {"brokers": [["own", "h:1", n] for n in range(1001)]}, "at most 1000 entries"),
        ("automatic", {"at_ms": 10**15}, "at_ms: an integer from 0"),
        ("pause", {"why": "x" * 20_000}, "why: a text of 0 to 16384 characters"),
    ],
)
def test_what_is_not_plausible_is_said(key: str, more: dict[str, object], why: str):
    with pytest.raises(Malformed) as caught:
        read_note(key, json.dumps({**GOOD[key].to_json(), **more}).encode())
    assert why in str(caught.value)


def test_sentences_are_shown_without_what_terminals_obey():
    note = read_note("agent/dc9", json.dumps({**AGENT.to_json(), "evidence": ["a\x1b[2J\nb\ud800"]}).encode())
    assert note == AGENT.of({**AGENT.to_json(), "evidence": ["a?[2J?b?"]})


def test_a_pause_that_cannot_be_read_still_holds_failovers_off():
    notes = Notes()
    assert notes.pause == ""
    notes.take(b"pause", PAUSE.encode())
    assert notes.pause == "paused by me: rack move"
    notes.take(b"pause", b"{")
    assert "drkit watch resume" in notes.pause
    notes.take(b"pause", None)
    assert notes.pause == ""
    notes.take(b"pause", Pause("you").encode())
    assert notes.pause == "paused by you"


def test_a_note_of_mode_auto_that_cannot_be_read_keeps_it_off():
    assert Notes().automatic is None
    notes = Notes()
    notes.take(b"automatic", b'{"by": 5}')
    assert notes.damaged(Automatic)
    found = notes.automatic
    assert found is not None
    assert found.acknowledged_ms is None
    notes.take(b"automatic", AUTOMATIC.encode())
    assert notes.automatic == AUTOMATIC
    assert not notes.damaged(Automatic)


def test_names_of_ever_new_keys_do_not_fill_the_log():
    reports: list[str] = []
    notes = Notes(lambda key, _why: reports.append(key))
    for n in range(500):
        notes.take(b"vote/%d" % n, b"{")
    assert len(reports) == 100


def test_addresses_of_every_form_are_read():
    for server in ("h:1", "10.0.0.1:9092", "::1:9092", "[2001:db8::1]:9092", "a_b-c.example:65535"):
        note = read_note("known", json.dumps({**KNOWN.to_json(), "brokers": [["own", server, 0]]}).encode())
        assert isinstance(note, KnownBrokers)
        assert note.brokers[0].server == server
