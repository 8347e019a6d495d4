"""`drkit drill schedule` sends a notice of each drill that does not pass, and survives a failing receiver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
import json
from pathlib import Path
import sys
from typing import NoReturn

import pytest

from drkit.cli import main as cli
from drkit.drill import run_drill as runs
from drkit.drill.entry import SCHEDULED, DrillEntry
from drkit.drill.evidence import TRANSLATION
from drkit.drill.history import DrillHistory, DrillTopic
from drkit.errors import ClusterUnreachable
from tests.support.errors import made

CONFIG = """[clusters.p]
bootstrap_servers = "p:1"
[clusters.s]
bootstrap_servers = "s:1"
[[flows]]
source = "p"
target = "s"
[failover]
journal_folder = "{folder}"
[watch]
command = ["{python}", "-c", "{program}"]
[[drills]]
name = "weekly"
kind = "translation"
cron = "* * * * *"
"""


@pytest.mark.parametrize(
    "program",
    ["import sys; open('notice', 'a').write(sys.stdin.read())", "raise SystemExit(1)"],
    ids=["it receives", "it fails"],
)
def test_the_scheduler_sends_a_notice_and_does_not_end_when_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    file = tmp_path / "drkit.toml"
    file.write_text(CONFIG.format(folder=tmp_path, python=sys.executable, program=program))
    monkeypatch.chdir(tmp_path)

    # No broker answers: the entries are of this machine.
    def silent(*_: object) -> NoReturn:
        raise made(ClusterUnreachable, "no broker answers", where="s")

    monkeypatch.setattr(DrillTopic, "_cluster", property(silent))
    monkeypatch.setattr(runs, "_COLLECTORS", {TRANSLATION: silent})
    before = round((datetime.now(UTC) - timedelta(minutes=2.5)).timestamp() * 1000)
    drill = {"name": "weekly", "kind": "translation", "flow": "p->s"}
    local = DrillHistory(tmp_path / "drills")
    with local.lock():
        local.put(DrillEntry(**drill, verdict=SCHEDULED, began_ms=before, due_ms=before))
    assert cli.run(["--config", str(file), "drill", "schedule", "--once"]) == 3
    sent = (tmp_path / "notice").read_text() if "notice" in program else ""
    assert bool(sent) == ("notice" in program)
    if sent:
        notices = [json.loads(line) for line in sent.replace("}{", "}\n{").splitlines()]
        assert [n["verdict"] for n in notices] == ["missed", "aborted"]
        assert {n["drill"] for n in notices} == {"weekly"}
        assert f"drkit drill run weekly --config {file}" in notices[0]["text"]
        assert f"drkit drill report {notices[1]['id']} --config {file}" in notices[1]["text"]
