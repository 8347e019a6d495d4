"""Ways that hang, trickle, flood or cannot exist: each ends in its time, by name, and holds up no other."""

from __future__ import annotations

import os
from pathlib import Path
import resource
import threading
import time
from typing import Any

import pytest
import urllib3

from drkit.config import RepointSettings
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import Failed
from drkit.repoint import RepointEffect, RepointOutcome, Result, TryAgain, Way, adapters, ask_all, tell_all
from drkit.repoint.command import Command
from drkit.repoint.file import EndpointFile
from drkit.repoint.program import run_program
from drkit.repoint.webhook import Webhook
from tests.support.errors import coded
from tests.support.repoint import hostile
from tests.support.waiting import eventually

STANDBY = Endpoint(5, "standby", "id-2", "s1:9092")
SECRETS = ("t0p-secret", "abc", "t0ken", "hush")
BOUND = 10.0
"""Far above every limit here, far below what each of them took without one."""


def hook(url: str, header: str = "Bearer t0ken", seconds: float = 0.4) -> Webhook:
    return Webhook(
        url, secret="hush", headers={"Authorization": header}, ca_file=None, timeout_seconds=seconds
    )


@pytest.mark.parametrize(
    "behaviour",
    [
        hostile.drips_a_header, hostile.drips_a_body, hostile.drips_early_answers, hostile.says_nothing,
        hostile.closes, hostile.speaks_no_http,
    ],
)  # fmt: skip
def test_a_server_has_the_time_of_one_call_in_all(behaviour: hostile.Behaviour):
    before = set(threading.enumerate())
    began = time.monotonic()
    with hostile.serving(behaviour) as url:
        with pytest.raises(TryAgain, check=coded("no_answer")) as failed:
            hook(url).tell(STANDBY)
        assert time.monotonic() - began < BOUND
        said = str(failed.value.as_dict())
        assert not [s for s in SECRETS if s in said]
        leaves_no_call(before)


def leaves_no_call(before: set[threading.Thread]) -> None:
    """The call was ended, not only left alone: it holds no thread in a process that lives for months."""
    eventually(lambda: not [t for t in set(threading.enumerate()) - before if t.name == "begun"], BOUND)


def test_a_call_whose_time_ends_before_it_begins_ends_too(monkeypatch: pytest.MonkeyPatch):
    """A busy machine starts its thread late: no connection is there to be cut, and the server drips."""
    before = set(threading.enumerate())
    is_over = threading.Event()
    begin = urllib3.PoolManager.urlopen

    def late(*args: Any, **more: Any) -> Any:
        is_over.wait(BOUND)
        return begin(*args, **more)

    monkeypatch.setattr(urllib3.PoolManager, "urlopen", late)
    with hostile.serving(hostile.drips_a_header) as url:
        with pytest.raises(TryAgain, check=coded("no_answer")):
            hook(url).tell(STANDBY)
        is_over.set()
        leaves_no_call(before)


def test_an_answer_that_never_ends_is_not_read_to_its_end():
    with hostile.serving(hostile.answers_without_end) as url:
        assert hook(url, seconds=20.0).tell(STANDBY) is RepointEffect.CHANGED


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("http://127.0.0.1:99999/t0p-secret", "x"),
        ("http://[::1/t0p-secret", "x"),
        ("http://127.0.0.1:1/", "Bearer t0ken\nX-Evil: 1"),
        ("http://127.0.0.1:1/", "Bearer t0ken \N{SNOWMAN}"),
    ],
)
def test_what_cannot_be_sent_fails_alone_and_without_its_text(tmp_path: Path, url: str, header: str):
    there = EndpointFile(tmp_path / "e.json")
    bad, good = tell_all([Way(hook(url, header), 30.0), Way(there, 0.0)], STANDBY)
    assert (bad.result, bad.tries, good.result) == (Result.FAILED, 1, Result.CHANGED)
    assert bad.error is not None
    said = str(bad.error.as_dict()) + bad.name + repr(bad)
    assert not [s for s in SECRETS if s in said]


class Odd:
    """An adapter that fails in a way that none should."""

    name = "odd"

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def current(self) -> Endpoint | None:
        self._act()
        return None

    def tell(self, _endpoint: Endpoint) -> RepointEffect:
        self._act()
        return RepointEffect.CHANGED

    def _act(self) -> None:
        if self._error is None:
            threading.Event().wait(30)
        else:
            raise self._error


@pytest.mark.parametrize(
    "error", [KeyError("t0ken"), RecursionError(), OverflowError(), AttributeError("x"), None]
)
def test_one_bad_way_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None):
    """Whatever it raises; also one that never ends, as a file on a share that hangs."""
    monkeypatch.setattr("drkit.repoint.tell._LATE_SECONDS", 0.1)
    ways = [Way(Odd(error), 30.0, 0.2), Way(EndpointFile(tmp_path / "e.json"), 0.0)]
    heard: list[RepointOutcome] = []
    bad, good = tell_all(ways, STANDBY, on_outcome=heard.append)
    assert heard == [bad, good]
    assert (bad.result, bad.tries, good.result) == (Result.FAILED, 1, Result.CHANGED)
    assert bad.error is not None
    assert "t0ken" not in str(bad.error.as_dict())
    asked = ask_all(ways)
    assert [a.endpoint for a in asked] == [None, STANDBY]
    assert asked[0].error is not None


def test_a_file_that_is_no_file_is_not_waited_for(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(Failed, check=coded("endpoint_file_irregular")):
            EndpointFile(path).current()
        with pytest.raises(Failed, check=coded("endpoint_file_irregular")):
            EndpointFile(path).tell(STANDBY)
    assert pipe.is_fifo()


def test_no_space_passes_and_leaves_nothing(tmp_path: Path):
    there = EndpointFile(tmp_path / "e.json")
    there.tell(STANDBY)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, most[1]))  # no file may grow beyond 16 bytes
    try:
        with pytest.raises(TryAgain, check=coded("endpoint_file_unwritable")):
            there.tell(Endpoint(6, "other", "id-3", "o:1"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert there.current() == STANDBY
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"]


def test_a_folder_that_vanishes_meanwhile(tmp_path: Path):
    folder = tmp_path / "mounted"
    folder.mkdir()
    there = EndpointFile(folder / "e.json")
    there.tell(STANDBY)
    folder.rename(tmp_path / "away")
    with pytest.raises(Failed, check=coded("endpoint_file_unwritable")):
        there.tell(STANDBY)
    (tmp_path / "away").rename(folder)
    assert there.tell(STANDBY) is RepointEffect.UNCHANGED


def test_a_flood_is_not_kept():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = run_program(hostile.python(hostile.PRINTS_A_GIGABYTE), "", {}, 60.0)
    assert (ended.code, ended.output[-3:]) == (0, "end")
    assert len(ended.output) <= 2000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_command_has_ended_when_its_process_has():
    began = time.monotonic()
    ended = run_program(hostile.python(hostile.LEAVES_A_CHILD), "", {}, 6.0)
    assert (ended.code, ended.output) == (0, "done")
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("text", [hostile.IGNORES_SIGTERM, hostile.LEAVES_A_SESSION])
def test_a_command_that_will_not_end_is_ended(text: str):
    began = time.monotonic()
    with pytest.raises(TryAgain, check=coded("program_timeout")):
        Command(hostile.python(text), 0.5).tell(STANDBY)
    assert time.monotonic() - began < BOUND


def test_a_long_document_goes_to_a_program_that_does_not_read(tmp_path: Path):
    """3,000 renamed topics are more than a pipe holds."""
    renamed = {f"topic-{i:04d}-{'x' * 100}": f"a.topic-{i:04d}" for i in range(3000)}
    told = Endpoint(5, "standby", "id-2", "s1:9092", topics=renamed)
    assert Command(hostile.python("pass"), 20.0).tell(told) is RepointEffect.CHANGED
    there = EndpointFile(tmp_path / "e.json")
    there.tell(told)
    assert parse_endpoint((tmp_path / "e.json").read_text()) == told


def test_fails_then_works(tmp_path: Path):
    mark = tmp_path / "mark"
    text = f"import os\nif os.path.exists({str(mark)!r}): os._exit(0)\nopen({str(mark)!r}, 'w')\nos._exit(1)"
    [outcome] = tell_all([Way(Command(hostile.python(text), 20.0), 20.0)], STANDBY)
    assert (outcome.result, outcome.tries) == (Result.CHANGED, 2)


def test_a_command_with_a_nul_fails_alone():
    with pytest.raises(Failed, check=coded("program_not_started")):
        Command(("/bin/true", "a\0b"), 1.0).tell(STANDBY)


def test_each_way_has_the_time_of_its_settings():
    way = RepointSettings.model_validate({"kind": "print", "timeout_seconds": 3.0, "retry_seconds": 7.0})
    assert adapters([way])[0][1:] == (7.0, 3.0)
