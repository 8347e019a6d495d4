"""`drkit explain` as it is typed: on a terminal, in a pipe, as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from textwrap import dedent

import pytest

from drkit.cli import main as cli
from drkit.cli.page_index import SOURCES, entries
from tests.support.errors import sentence

DRKIT = [sys.executable, "-m", "drkit"]
WIDTH = 80


def on_terminal(*words: str) -> str:
    """Run drkit on a terminal of 80 columns; return what it shows, with the terminal's own codes."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm-256color"}
    with subprocess.Popen([*DRKIT, *words], stdout=its, stdin=its, stderr=its, env=environment) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux reports the end of a terminal so
                break
            shown += part
        assert process.wait(60) == 0
    os.close(ours)
    return shown.decode()


def test_a_page_on_a_terminal_is_rendered() -> None:
    shown = on_terminal("explain", "hold-paused")
    assert "\x1b[1" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", shown).splitlines()
    assert max(map(len, lines)) <= WIDTH
    text = " ".join(" ".join(lines).split())
    assert "Failovers are paused" in text
    assert "see failover-paused (drkit explain failover-paused)" in text
    assert not re.search(r"```|\*\*|\]\(|^#", text)


@pytest.mark.parametrize("page", ["night", "configuration", "commands", "failover", "glossary", "decisions"])
def test_a_page_in_a_pipe_is_plain_text(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", page]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) > 10
    assert "\x1b" not in text
    assert "```" not in text
    assert not re.search(r"\]\([^)]*\.md|^#+ ", text, re.MULTILINE)


def test_only_the_first_of_several_pages_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "no_quorum"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"no_quorum\n\n • what happened: {sentence('no_quorum')}\n")
    assert "\nToo few observers report the primary as lost\n" in text
    assert "page: " not in text
    assert "also: drkit explain hold-no-quorum\n" in text
    assert "Verdict of drkit watch" not in text
    assert cli.run(["explain", "hold-no-quorum"]) == 0
    assert "Verdict of drkit watch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("source_gap", "what to do: raise the source's retention, or add tasks"),
        ("source_gap", "page: drkit explain events"),
        ("LOST", "no broker answers, replication is stalled"),
        ("3", "refused or held"),
        ("rpo_seconds", "How much loss is acceptable"),
        ("RPO", "the most data that a failover may lose"),
        ("split brain", "Both clusters accept writes"),
        ("switchover", "A planned failover"),
        ("DrkitGone", "start drkit replicate there"),
        ("primary-killed", "title: The primary is killed while clients write"),
        ("docs/reference/drkit.reference.toml", "[failover]"),
    ],
)
def test_a_code_is_explained(asked: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", asked]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["docker", "systemd"])
def test_code_to_copy_is_not_broken(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also below the number of a step."""
    assert cli.run(["explain", name]) == 0
    out = capsys.readouterr().out
    (page,) = [entry.text for entry in entries() if entry.page == f"docs/how-to/{name}.md"]
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", page, re.DOTALL | re.MULTILINE)
    lines = [line.rstrip() for block in blocks for line in dedent(block).splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if f"  {line}" not in out] == []


def test_as_json_there_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--json", "explain", "no_quorum"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["page"] == "runbooks/failover-no-quorum.md"
    assert found["kind"] == "error"
    assert "drkit explain hold-no-quorum" in found["also"]
    assert "# Too few observers" in found["text"]


def test_all_names_are_listed_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "--list"]) == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if line and not line.startswith(" ")] == [
        f"{source.heading} ({source.kind})" for source in SOURCES
    ]
    assert cli.run(["explain"]) == 0
    assert capsys.readouterr().out == text
    assert cli.run(["--json", "explain"]) == 0
    listed = {(row["kind"], row["code"]) for row in json.loads(capsys.readouterr().out)}
    assert listed == {(entry.kind, entry.name) for entry in entries()}
    assert cli.run(["explain", "--list", "alert"]) == 0
    assert "DrkitGone" in capsys.readouterr().out
    assert cli.run(["explain", "--list", "alerts"]) == 2


def test_the_list_fits_a_terminal() -> None:
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", on_terminal("explain", "--list", "setting")).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= WIDTH
    assert any(line.startswith("  failover.rpo_seconds") for line in lines)
    names = {entry.name for entry in entries() if entry.kind == "setting"}
    assert names <= {line.split()[0] for line in lines if line.strip()}


def test_an_unknown_name_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "source_gab"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("usage: nothing explains 'source_gab'")
    assert "did you mean 'source_gap'?" in err
    assert cli.run(["explain", "tls"]) == 2
    assert "what to do pages with it: drkit explain security, " in capsys.readouterr().err
    assert cli.run(["explain", "xyzzy"]) == 2
    err = capsys.readouterr().err
    assert "did you mean" not in err
    assert "drkit explain --list" in err


@pytest.mark.parametrize("words", ["explain failover", "explain --list", "--help", "help failover"])
def test_a_reader_that_leaves_early_ends_drkit_as_sigpipe_would(words: str) -> None:
    command = f"{sys.executable} -m drkit {words} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "141\n"
    assert not done.stderr
