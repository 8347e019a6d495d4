from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import fcntl
import os
from pathlib import Path
import stat
import threading

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import Failed
from drkit.repoint import OlderTerm, RepointEffect, TryAgain
from drkit.repoint.file import EndpointFile, _only_one
from tests.support.errors import coded

STANDBY = Endpoint(5, "standby", "id-2", "s1:9092")


def test_mode_owner_and_link_stay(tmp_path: Path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    EndpointFile(real).tell(STANDBY)
    assert stat.S_IMODE(real.stat().st_mode) == 0o644
    real.chmod(0o640)
    link.symlink_to(real)
    EndpointFile(link).tell(replace(STANDBY, term=6))
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert parse_endpoint(real.read_text()).term == 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.json", "real.json"]


@pytest.mark.parametrize(
    ("content", "evidence"),
    [
        ("bootstrap.servers=p1:9092\n", "Expecting value"),
        ('{"a": 1}', "no 'drkit_endpoint'"),
        ('{"drkit_endpoint": 2}', "its version is 2"),
        ('{"drkit_endpoint": 1, "term": "5"}', "'term' is '5'"),
        ('{"drkit_endpoint": 1, "term": 5}', "no 'cluster'"),
    ],
)
def test_a_foreign_file_is_left_alone(tmp_path: Path, content: str, evidence: str):
    path = tmp_path / "app.conf"
    path.write_text(content)
    with pytest.raises(Failed, check=coded("endpoint_file_foreign")) as failed:
        EndpointFile(path).tell(STANDBY)
    assert evidence in failed.value.evidence
    assert path.read_text() == content
    assert not isinstance(failed.value, TryAgain)


def test_a_missing_folder_is_said(tmp_path: Path):
    file = EndpointFile(tmp_path / "no" / "such.json")
    with pytest.raises(Failed, check=coded("endpoint_file_unwritable")) as failed:
        file.tell(STANDBY)
    assert "create the folder" in failed.value.hint
    with pytest.raises(
        Failed, check=coded("endpoint_folder_missing")
    ):  # also to who only asks, before it matters
        file.current()


def test_who_may_only_read_cannot_hold_it_up(tmp_path: Path):
    """Any local user may open a folder that clients read, and lock it."""
    path = tmp_path / "e.json"
    EndpointFile(path).tell(STANDBY)
    held = [os.open(place, os.O_RDONLY) for place in (tmp_path, path)]
    try:
        for handle in held:
            fcntl.flock(handle, fcntl.LOCK_EX)
        assert EndpointFile(path).tell(replace(STANDBY, term=6)) is RepointEffect.CHANGED
    finally:
        for handle in held:
            os.close(handle)


def test_the_lock_is_for_writers_alone_and_leaves_nothing(tmp_path: Path):
    path = tmp_path / "e.json"
    lock = tmp_path / ".e.json.lock"
    seen = []
    with _only_one(path):
        seen.append(stat.S_IMODE(lock.stat().st_mode))
        with pytest.raises(TryAgain, check=coded("endpoint_file_locked")):
            EndpointFile(path).tell(STANDBY)
    assert seen == [0o600]
    lock.touch()  # a process that was killed
    EndpointFile(path).tell(STANDBY)
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"]


def test_readers_see_whole_documents_and_the_newest_writer_wins(tmp_path: Path):
    path = tmp_path / "endpoint.json"
    EndpointFile(path).tell(replace(STANDBY, term=0))
    over, seen = threading.Event(), []

    def read() -> None:
        while not over.is_set():
            seen.append(parse_endpoint(path.read_text()).term)

    def write(term: int) -> bool:
        while True:
            try:
                return EndpointFile(path).tell(replace(STANDBY, term=term)) is RepointEffect.CHANGED
            except TryAgain:
                continue
            except OlderTerm:
                return False

    with ThreadPoolExecutor(5) as pool:
        reading = pool.submit(read)
        won = list(pool.map(write, [3, 1, 9, 7, 5, 8, 2, 6, 4]))
        over.set()
        reading.result()
    assert won[2]
    assert parse_endpoint(path.read_text()).term == 9
    assert seen == sorted(seen), "a reader saw a term come back"


names = st.text(min_size=1, max_size=20)


@given(st.integers(0, 2**31), names, st.dictionaries(names, names, max_size=3))
def test_an_endpoint_is_read_as_it_was_written(term: int, name: str, table: dict[str, str]):
    endpoint = Endpoint(term, name, name, name, table, table)
    assert parse_endpoint(endpoint.to_json()) == endpoint
