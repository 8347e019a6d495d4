"""`drkit drill` without a cluster: bad input has one clear error, timers are printed, SIGTERM ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.config import load
from drkit.drill import run_drill as runs
from drkit.drill.evidence import TRANSLATION, DrillEvidence
from drkit.drill.history import DrillHistory
from drkit.drill.plan import plan_kind
from drkit.drill.position_rows import PackedPositions
from drkit.drill.report import read_report
from drkit.drill.run_drill import run_drill
from drkit.drill.steps import CollectedEvidence, DrillOptions
from tests.support.cli.forked import Forked
from tests.support.drill.logs import position
from tests.support.errors import sentence
from tests.support.failover.command import drkit
from tests.support.waiting import eventually

CONFIG = """
[clusters.p]
bootstrap_servers = "127.0.0.1:1"
[clusters.s]
bootstrap_servers = "127.0.0.1:1"
[[flows]]
source = "p"
target = "s"
[failover]
journal_folder = "{folder}"
[[drills]]
name = "daily"
kind = "translation"
cron = "0 6 * * *"
[[drills]]
name = "weekly"
kind = "bubble"
cron = "0 6 * * 1"
"""
ID = "20261128t060000-1a2b3c"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "drkit.toml"
    file.write_text(CONFIG.format(folder=tmp_path / "journal"))
    return file


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("run", "dayly"), 2, "did you mean 'daily'?"),
        (("run",), 2, sentence("drill_name_and_kind")),
        (("run", "daily", "--kind", "readiness"), 2, sentence("drill_name_and_kind")),
        (("run", "--kind", "readiness", "--flow", "p->x"), 2, "did you mean 'p->s'?"),
        (("run", "--kind", "switchover"), 2, sentence("no_reverse_flow", target="s", source="p")),
        (("run", "daily", "--stay"), 2, sentence("option_of_switchover_drill", option="stay")),
        (("run", "weekly", "--dry-run"), 2, sentence("option_of_switchover_drill", option="dry-run")),
        (("report", ID), 2, sentence("drill_id_unknown", drill_id=ID)),
        (("report",), 2, sentence("drill_id_missing")),
        (("report", "--check", "missing.json"), 2, sentence("file_missing")),
    ],
)
def test_bad_input_has_one_clear_error(file: Path, words: tuple[str, ...], code: int, text: str) -> None:
    found = drkit(file, "drill", *words)
    assert (found.code, text in found.err) == (code, True), found


@pytest.mark.wide
def test_an_altered_report_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(file)
    rows = (position("abcdef", 6, 2, 3)._replace(group="billing"),)
    monkeypatch.setitem(
        runs._COLLECTORS,
        TRANSLATION,
        lambda *_: CollectedEvidence(DrillEvidence(PackedPositions.of(rows)), 1, 1, 1),
    )
    history = DrillHistory.of(settings)
    with history.lock():
        run_drill(
            settings, plan_kind(settings, "translation", settings.flows[0], ID), history, DrillOptions()
        )
    path = history.report_path(ID)
    assert drkit(file, "drill", "report", ID, "--check", str(path)).code == 0
    assert drkit(file, "drill", "report", ID).data["verdict"] == "fail"
    assert [row["id"] for row in drkit(file, "drill", "history").data] == [ID]
    copy = file.parent / "copy.json"
    altered = read_report(path.read_bytes()).model_copy(update={"verdict": "pass"})
    copy.write_text(altered.model_copy(update={"self_hash": altered.hash()}).to_json())
    for words in ((), (ID,)):
        found = drkit(file, "drill", "report", *words, "--check", str(copy))
        assert found.code == 1
        assert "the verdict is pass, judged again it is fail" in found.err
    assert "it differs from the report in the drill folder" in found.err
    path.rename(copy)  # as on another machine, which has the history alone
    found = drkit(file, "drill", "report", ID, "--check", str(copy))
    assert (found.code, "it was compared with the history alone" in found.err) == (0, True)


def test_timers_and_the_schema_are_printed(file: Path) -> None:
    units = drkit(file, "drill", "schedule", "--print", "systemd").data
    assert min(units) == "drkit-drill-daily.service"
    assert str(file) in units["drkit-drill-daily.service"]
    jobs = drkit(file, "drill", "schedule", "--print", "kubernetes").data
    assert sorted(jobs) == ["drkit-drill-daily.yaml", "drkit-drill-weekly.yaml"]
    assert "verdict" in drkit(file, "drill", "report", "--schema").data["properties"]


def test_sigterm_ends_the_schedule(file: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    with Forked("--config", str(file), "drill", "schedule", said=said) as process:
        eventually(lambda: "weekly: bubble, next" in said.read_text(), 60, "the next due times")
        process.terminate()
        assert process.wait(20) == 0
