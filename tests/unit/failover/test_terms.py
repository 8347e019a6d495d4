"""The term of a run: above all that anything outside of its journal remembers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drkit.config import FlowSettings, RepointSettings
from drkit.endpoint import Endpoint
from drkit.failover.checks.run_opening import least_term, refused_later
from drkit.failover.steps.snapshot import LockStep
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.file import JournalFile
from tests.support.stored import flow_state

FLOW = FlowSettings(source="a", target="b")
ROLE = {"role": "promoted", "run_id": "r", "at_ms": 1}


def context(values: dict[str, Any], *ways: RepointSettings, term: int = 0) -> Any:
    settings = SimpleNamespace(failover=SimpleNamespace(repoint=ways), flows=())
    state = SimpleNamespace(records=flow_state(values))
    return SimpleNamespace(settings=settings, state=state, source=lambda: None, term=term, flow=FLOW)


def test_a_lost_journal_does_not_restart_it(tmp_path: Path) -> None:
    """With receivers that cannot be asked, a term of 1 was refused after OPEN."""
    hook = RepointSettings(kind="webhook", url="http://127.0.0.1:1/")
    assert least_term(context({}, hook), tmp_path) == 1
    assert least_term(context({"role/orders": {**ROLE, "term": 4}}, hook), tmp_path) == 5
    promoted = {"promotion": {"term": 6, "run_id": "r", "at_ms": 1}}
    assert least_term(context(promoted, hook), tmp_path) == 7


def test_files_of_this_machine_know_it(tmp_path: Path) -> None:
    for run, term in (("a", 3), ("b", 8)):
        JournalFile(tmp_path, run).append(
            JournalEntry(run, 0, "t", term, EntryKind.RUN, None, "", 1, {"holder": {}})
        )
    (tmp_path / "c.jsonl").write_text('{"v": 1, "te')
    (tmp_path / "a.report.json").write_text("{}")
    assert least_term(context({}), tmp_path) == 9
    assert least_term(context({}), tmp_path / "missing") == 1


def test_a_term_that_no_client_follows_does_not_raise_it(tmp_path: Path) -> None:
    """With a term in nanoseconds in the file, clients would ignore later endpoints."""
    path = tmp_path / "endpoint.json"
    file = RepointSettings(kind="file", path=str(path))
    for term, least in ((7, 8), (1_795_000_000_000_000_000, 1)):
        path.write_text(json.dumps(Endpoint(term, "a", "id", "a:9092").as_dict()))
        assert least_term(context({}, file), tmp_path / "journal") == least


def test_receivers_that_cannot_be_asked_are_named_before_anything_is_changed() -> None:
    hook = RepointSettings(kind="webhook", url="http://127.0.0.1:1/")
    file = RepointSettings(kind="file", path="/etc/endpoint.json")
    assert "webhook cannot be asked" in refused_later(context({}, hook, file, term=1))
    assert refused_later(context({}, hook, file, term=2)) == ""
    assert refused_later(context({}, file, term=1)) == ""


def test_a_dry_run_of_a_return_names_no_term() -> None:
    """It is asked for when the run begins; the dry run said 0."""
    of_flow = {"flow": SimpleNamespace(name="a->b", target="b")}
    for term, what in ((0, "take the journal"), (22, "take the journal as term 22")):
        run = SimpleNamespace(**vars(context({}, term=term)) | of_flow)
        assert [line.what for line in LockStep().plan(run)] == [what]  # type: ignore[arg-type]
