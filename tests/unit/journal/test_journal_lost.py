"""The journal's topic was deleted: what the files of this machine still say."""

from __future__ import annotations

import json
from pathlib import Path

from drkit.errors import Refused
from drkit.journal.journal import NoRun
from drkit.journal.lost import explained, left_runs
from drkit.journal.machine import StepName
from tests.support.failover.journal_files import NOON_MS, write

ERROR = NoRun("no_run", where="drkit-failover.a.internal on b", evidence="none", verb="resume")


def test_a_run_that_only_this_machine_knows_is_said_with_how_far_it_came(tmp_path: Path):
    write(tmp_path, "r1", StepName.LOCK, StepName.SNAPSHOT)
    found = explained(ERROR, tmp_path, "a->b")
    assert isinstance(found, Refused)
    assert found.where == f"{ERROR.where}; {tmp_path / 'r1.jsonl'}"
    assert found.evidence == (
        "run r1, term 3, 1 topic: running; steps that ended: LOCK, SNAPSHOT;"
        " its last entry is 'result SNAPSHOT' of 2025-11-22T12:00:04+00:00"
    )
    assert "move the file away" in found.hint


def test_runs_that_are_over_or_known_or_of_another_flow_are_none(tmp_path: Path):
    assert explained(ERROR, tmp_path / "never-made", "a->b") is ERROR
    write(tmp_path, "over", StepName.LOCK, ended=True)
    write(tmp_path, "other", StepName.LOCK)
    (tmp_path / "other.report.json").write_text(json.dumps({"flow": "c->d"}))
    assert explained(ERROR, tmp_path, "a->b") is ERROR
    write(tmp_path, "old", StepName.LOCK, at_ms=NOON_MS - 86_400_000)
    write(tmp_path, "new", StepName.LOCK)
    (tmp_path / "new.report.json").write_text("{")
    assert [r.run_id for r in left_runs(tmp_path, "a->b")] == ["new", "old"]
    assert explained(ERROR, tmp_path, "a->b").evidence.endswith("; and 1 more runs there")
    assert [r.run_id for r in left_runs(tmp_path, "a->b", {"new"})] == ["old"]
