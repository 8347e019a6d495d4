"""An endpoint file that is damaged, replaced, or something else: the client stays, and does not wait."""

from __future__ import annotations

from dataclasses import replace
import logging
import os
from pathlib import Path
import threading

import pytest

from drkit.client import switch
from drkit.client.switch import MAX_BYTES, REST_SECONDS, EndpointWatch, read_text
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import ConfigError
from tests.support.errors import coded

PRIMARY = Endpoint(1, "primary", "id-1", "p:9092")
STANDBY = Endpoint(2, "standby", "id-2", "s:9092")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "endpoint.json"
    found.write_text(PRIMARY.to_json())
    return found


def make_pipe(file: Path) -> None:
    os.mkfifo(file)


def make_endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def make_folder(file: Path) -> None:
    file.mkdir()


def make_loop(file: Path) -> None:
    file.symlink_to(file)


def make_large(file: Path) -> None:
    with file.open("wb") as out:
        out.truncate(1 << 30)


def make_latin(file: Path) -> None:
    file.write_bytes(STANDBY.to_json().replace("standby", "stændby").encode("latin-1"))


def make_deep(file: Path) -> None:
    file.write_text("[" * 1_000_000)


def make_half(file: Path) -> None:
    file.write_text(STANDBY.to_json()[:60])


def make_many_digits(file: Path) -> None:
    file.write_text(STANDBY.to_json().replace('"term": 2', '"term": ' + "9" * 5000))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_pipe, "not a regular file"),
        (make_endless, "not a regular file"),
        (make_folder, "not a regular file"),
        (make_loop, "symbolic links"),
        (make_large, "larger than"),
        (make_latin, "decode byte"),
        (make_deep, "nested without end"),
        (make_half, "not followed"),
        (make_many_digits, "digits"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_something_else_under_its_name(
    file: Path, caplog: pytest.LogCaptureFixture, make: object, reason: str
):
    watch = EndpointWatch(file)
    file.unlink()
    assert callable(make)
    make(file)
    looked: list[Endpoint | None] = []

    def look() -> None:
        with caplog.at_level(logging.WARNING, "drkit.client"):
            looked.extend(watch.newer(at_once=True) for _ in range(3))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(30)
    assert looked == [None] * 3, "it neither waits nor fails"
    (said,) = [r.getMessage() for r in caplog.records]
    assert reason in said
    assert len(said) < 1000
    with pytest.raises(ConfigError, check=coded("no_endpoint")):
        EndpointWatch(file)
    file.rmdir() if file.is_dir() else file.unlink()
    file.write_text(STANDBY.to_json())
    assert watch.newer(at_once=True) == STANDBY


def test_the_largest_file_that_is_read(tmp_path: Path):
    file = tmp_path / "endpoint.json"
    topics = {f"orders-{i:06}": f"primary.orders-{i:06}" for i in range(20_000)}
    file.write_text(replace(STANDBY, topics=topics).to_json())
    assert EndpointWatch(file).endpoint.topics == topics
    file.write_bytes(b" " * MAX_BYTES)
    assert len(read_text(file)) == MAX_BYTES


def test_a_change_within_one_step_of_the_file_systems_clock(file: Path, monkeypatch: pytest.MonkeyPatch):
    """Inode, times and size are as before, and yet another endpoint is in the file."""
    monkeypatch.setattr(switch, "stamp_of", lambda _path: (1, 2, 3, 4, 5))
    clock = Clock()
    watch = EndpointWatch(file, clock=clock)
    file.write_text(STANDBY.to_json())
    clock.now += REST_SECONDS / 2
    assert watch.newer() == STANDBY


def test_two_threads_that_look_both_see_it(file: Path):
    """A look of one thread is the answer of the others until the next."""
    clock = Clock()
    watch = EndpointWatch(file, clock=clock)
    file.write_text(STANDBY.to_json())
    clock.now += 1
    assert [watch.newer() for _ in range(3)] == [STANDBY] * 3
    watch.followed(STANDBY)
    assert watch.newer() is None
    assert watch.endpoint == STANDBY


def test_what_is_newer_stays_so_while_another_thread_reads_the_file_again(file: Path):
    """A call that had to end said that clients go to the cluster it had asked."""
    seen: list[Endpoint | None] = []

    class Slow(EndpointWatch):
        def _read(self, before: Endpoint | None) -> Endpoint:
            found = super()._read(before)
            if before is not None:
                seen.append(self._ahead)
            return found

    watch = Slow(file)
    file.write_text(STANDBY.to_json())
    assert [watch.newer(at_once=True) for _ in range(2)] == [STANDBY, STANDBY]
    assert seen == [None, STANDBY]


def test_a_newer_endpoint_that_was_rolled_back_does_not_count(file: Path):
    watch = EndpointWatch(file)
    file.write_text(STANDBY.to_json())
    assert watch.newer(at_once=True) == STANDBY
    file.write_text(PRIMARY.to_json())
    assert watch.newer(at_once=True) is None
    file.write_text(STANDBY.to_json())
    assert watch.newer(at_once=True) == STANDBY
    file.unlink()
    assert watch.newer(at_once=True) is None


def test_an_older_term_is_not_followed_and_named_once(file: Path, caplog: pytest.LogCaptureFixture):
    file.write_text(replace(STANDBY, term=7).to_json())
    watch = EndpointWatch(file)
    file.write_text(replace(PRIMARY, term=6).to_json())
    assert [watch.newer(at_once=True) for _ in range(3)] == [None] * 3
    assert [r.getMessage().rpartition(": ")[2] for r in caplog.records] == ["its term 6 is older than 7"]


@pytest.mark.parametrize(
    "text",
    [
        STANDBY.to_json().replace('"term": 2', '"term": [2]'),
        STANDBY.to_json().replace('"term": 2', '"term": true'),
        STANDBY.to_json().replace('"client": {}', '"client": {"client.rack": ["a"]}'),
        STANDBY.to_json().replace('"client": {}', '"client": ["client.rack"]'),
        STANDBY.to_json().replace('"topics": {}', '"topics": {"a": ["b"]}'),
        STANDBY.to_json().replace('"topics": {}', '"topics": {"a": "' + "x" * 1_000_000 + '", "b": 3}'),
        STANDBY.to_json().replace('"cluster_id": "id-2",', ""),
        "[" * 100_000,
    ],
)
def test_an_invalid_document_says_so_in_few_words(text: str):
    with pytest.raises(ValueError, match=r"'\w+'|endpoint") as caught:
        parse_endpoint(text)
    assert len(str(caught.value)) < 400
