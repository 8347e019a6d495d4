"""Files of a journal: named by drkit's own ids, readable only by their owner, whatever its topic holds."""

from __future__ import annotations

import os
from pathlib import Path
import stat

import pytest

from drkit.errors import DrkitError, Refused
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.file import JournalFile, path_of
from drkit.journal.lost import left_runs
from tests.support.errors import coded


def entry(run_id: str) -> JournalEntry:
    return JournalEntry(run_id, 0, "t", 1, EntryKind.RUN, None, "", 1, {"holder": {}})


@pytest.mark.parametrize("run_id", ["../../x", "..", ".", "a/b", "", "/etc/x", "a\0", "a\n", "x" * 101, "é"])
def test_an_id_that_is_a_path_names_no_file(tmp_path: Path, run_id: str):
    with pytest.raises(Refused, check=coded("journal_foreign_run")):
        path_of(tmp_path, run_id, "jsonl")
    with pytest.raises(ValueError, match="run id"):
        JournalEntry.from_json(entry(run_id).to_json())


def test_only_its_owner_reads_a_journal(tmp_path: Path):
    before = os.umask(0o022)
    try:
        file = JournalFile(tmp_path / "there", "run-1")
        file.append(entry("run-1"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert file.entries() == [entry("run-1")]


def test_a_link_of_that_name_is_not_written_through(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run-1.jsonl").symlink_to(victim)
    file = JournalFile(tmp_path, "run-1")
    file.append(entry("run-1"))
    assert victim.read_text() == "mine"
    assert file.trouble


@pytest.mark.parametrize("line", ["[]", "5", '"x"', "{}", "[" * 100_000, '{"v": 1, "run_id": 5}'])
def test_lines_of_others_are_left_out(tmp_path: Path, line: str):
    file = JournalFile(tmp_path, "run-1")
    file.append(entry("run-1"))
    with file.path.open("a") as content:
        content.write(f"{line}\n")
    assert file.entries() == [entry("run-1")]


def test_files_of_others_in_the_folder_stop_nothing(tmp_path: Path):
    (tmp_path / "not a run.jsonl").write_text("x\n")
    assert left_runs(tmp_path, "a->b") == []


def test_a_file_that_is_no_text_is_named(tmp_path: Path):
    (tmp_path / "run-1.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(DrkitError, check=coded("journal_copy_unreadable")):
        JournalFile(tmp_path, "run-1").entries()
