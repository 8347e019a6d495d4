"""Answers that used to be empty, doubled, or against the documentation. No broker."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
import io
from pathlib import Path
import re
from typing import Any

import pytest

from drkit.cli import main as cli
from drkit.cli.actions import local, replicate
from drkit.cli.screens.watch import screen
from drkit.config import FlowSettings
from drkit.topic_sync import preview

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial" / "first-failover.md"
CONFIG = """
[clusters.p]
bootstrap_servers = "127.0.0.1:1"
[clusters.s]
bootstrap_servers = "127.0.0.1:2"
[[flows]]
source = "p"
target = "s"
topics = ["shop-.*"]
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Pair:
    """A pair that has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def up(self, config: Path, **_: Any) -> dict[str, Any]:
        return {"state": "up", "config": str(config)}


def test_a_dry_run_of_an_empty_cluster_says_that_nothing_can_be_copied_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It printed nothing, as if it had failed."""
    (tmp_path / "drkit.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preview, "dry_run", lambda *_: [])
    assert cli.run(["replicate", "--dry-run"]) == 0
    assert "p->s: nothing to copy yet: p has no topic that matches shop-.*" in capsys.readouterr().out
    assert cli.run(["--json", "replicate", "--dry-run"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_only_flows_without_a_topic_have_empty_flow_lines() -> None:
    flows = [FlowSettings(source=a, target=b, topics=(".*",)) for a, b in (("p", "s"), ("s", "p"))]
    [line] = replicate.empty_flow_lines(flows, {"p->s"})
    assert line.startswith("s->p: nothing to copy yet: s has no topic")


@pytest.mark.parametrize("name", ["drkit.toml", "local.toml"])
def test_the_command_after_local_up_is_the_one_of_the_tutorial(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tutorial warned: do not type it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "LocalPair", Pair)
    local.up(tmp_path, 1, Path(name))
    [next_] = re.findall(r"^next +(.*)$", capsys.readouterr().out, re.MULTILINE)
    if name == "drkit.toml":
        assert next_ == "drkit replicate"
        return
    page = TUTORIAL.read_text(encoding="utf-8")
    assert f"next     {next_}\n" in page
    assert next_.endswith(": drkit config init"), "the command that the tutorial goes on with"
    assert "$ drkit config init" in page
    assert "Do not type" not in page


def test_local_up_of_a_running_pair_names_the_configuration_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It named the file of this --write, which does not exist."""
    written = str(tmp_path / "first.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "LocalPair", Pair)
    monkeypatch.setattr(Pair, "up", lambda *_, **__: {"state": "up", "config": written})
    local.up(tmp_path, 1, Path("other.toml"))
    out = capsys.readouterr().out
    assert "other.toml" not in out
    assert f"drkit replicate --config {written}; " in out


def test_a_configuration_of_ones_own_is_not_offered_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "LocalPair", Pair)
    (tmp_path / "drkit.toml").touch()
    local.up(tmp_path, 1, Path("local.toml"))
    assert "config init" not in capsys.readouterr().out


def test_with_once_a_terminal_shows_one_line_until_the_verdict() -> None:
    """It showed a box, then the log line of each verdict, then the verdict again."""
    out, err = Terminal(), Terminal()
    with redirect_stdout(out), redirect_stderr(err):
        with screen(once=3.0) as show:
            show([])
            assert "watching for 3 s" in err.getvalue()
        assert err.getvalue().endswith("\x1b[2K"), "the line is cleared before the answer"
    assert out.getvalue() == ""
