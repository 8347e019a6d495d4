from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from drkit.exercise.events import (
    _KINDS,
    PRIMARY,
    STANDBY,
    Acked,
    ClientStopped,
    CommandEnded,
    Consumed,
    CopyEnded,
    Event,
    ExportRead,
    FaultBegan,
    FaultEnded,
    FinalPosition,
    JournalEntered,
    LogEnd,
    LookFailed,
    NotAcked,
    Observed,
    OffsetCommitted,
    Probed,
    Read,
    Recorder,
    RunReported,
    ScenarioEnded,
    read_events,
)
from drkit.exercise.history import ScenarioHistory

EVENTS = (
    Acked(PRIMARY, "orders", 1, 7, "größer", "committed"),
    NotAcked(PRIMARY, "orders", "a", "_MSG_TIMED_OUT", is_refused=False),
    Consumed(STANDBY, "orders", 0, 3, "a\nb", "shop"),
    OffsetCommitted(STANDBY, "orders", 0, "shop", 4),
    JournalEntered("failover", "run", "OPEN", "intent", ""),
    FaultBegan("kill primary", "no process is left"),
    FaultEnded("kill primary"),
    ClientStopped("till", "following writer"),
    CommandEnded(["fence", "pay"], None, [None, 0], {"error": "refused"}, {"clean": True}),
    RunReported("failover", "run", "done", PRIMARY, {"loss": {"records": 1}}, ["{}"]),
    CopyEnded("primary->standby", "plan", {"orders-0": "InvalidProducerEpochError (47)"}, was_fenced=True),
    Read(STANDBY, "orders", 0, 3, ""),
    ExportRead(PRIMARY, "orders", 0, 3, "a", envelope="0"),
    LogEnd(STANDBY, "orders", 0, 0, 9),
    FinalPosition(STANDBY, "orders", 0, "shop", 4),
    Probed(PRIMARY, "orders", is_accepted=False, error="TOPIC_AUTHORIZATION_FAILED"),
    Observed("HOLD", "lag_above_rpo"),
    LookFailed("logs", "no answer"),
    ScenarioEnded(STANDBY, ["run r is held"]),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path, "stage")
    for event in EVENTS:
        recorder.record(event)
    recorder.close()
    return path


def _without_stamps(event: Event) -> dict[str, object]:
    return {f.name: getattr(event, f.name) for f in fields(event) if f.name not in {"seconds", "by"}}


def test_every_kind_is_read_as_it_was_recorded(file: Path):
    assert {event.KIND for event in EVENTS} == _KINDS.keys()
    events = read_events(file, 0)[0]
    assert [type(e) for e in events] == [type(e) for e in EVENTS]
    assert [_without_stamps(e) for e in events] == [_without_stamps(e) for e in EVENTS]


def test_events_have_the_process_and_its_clock(file: Path):
    events = read_events(file, 0)[0]
    assert {e.by for e in events} == {"stage"}
    seconds = [e.seconds for e in events]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


def test_lines_of_several_processes_are_in_the_order_of_the_file(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    recorders = [Recorder(path, name) for name in ("one", "another")]
    for number in range(6):
        recorders[number % 2].record(FaultEnded(str(number)))
    events = read_events(path, 0)[0]
    assert [e.by for e in events] == ["one", "another"] * 3
    assert [e.fault for e in ScenarioHistory(events).of(FaultEnded)] == list("012345")


def test_a_half_line_at_the_end_is_dropped(file: Path):
    whole = file.read_bytes()
    cut = whole.rindex(b"\n", 0, -1) + 1
    for size in (cut, cut + 1, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert len(read_events(file, 0)[0]) == len(EVENTS) - 1


@pytest.mark.parametrize("line", [b'{"what": "another"}', b"{}", b"not JSON"])
def test_a_line_that_is_no_event_is_a_failed_look(file: Path, line: bytes):
    whole = read_events(file, 0)[0]
    file.write_bytes(line + b"\n" + file.read_bytes())
    failed = LookFailed("history", f"not an event: {line.decode()}")
    assert read_events(file, 0)[0] == [failed, *whole]


def test_events_of_one_kind_and_the_newest():
    history = ScenarioHistory([ScenarioEnded(PRIMARY, []), FaultEnded("a"), ScenarioEnded(STANDBY, [])])
    assert [e.active for e in history.of(ScenarioEnded)] == [PRIMARY, STANDBY]
    newest = history.last(ScenarioEnded)
    assert newest is not None
    assert newest.active == STANDBY
    assert history.last(Read) is None
