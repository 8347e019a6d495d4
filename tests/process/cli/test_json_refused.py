"""With ``--json`` a command prints one document on standard output, also where no cluster answers."""

from __future__ import annotations

import json
from pathlib import Path
import re
from typing import Final

import click
import pytest

from drkit.catalogue import ERRORS
from drkit.cli import main as cli
from tests.commands import commands
from tests.support.circles import in_wide
from tests.support.config.silent_pair import silent_pair
from tests.support.failover.command import drkit

_TABLES: Final = """
[control]
key_file = "{folder}/control.key"
[failover]
journal_folder = "{folder}/journal"
repoint = [{{ kind = "file", path = "{folder}/endpoint.json" }}]
[fence_agent]
command = ["true"]
state_file = "{folder}/agent.json"
"""
ASKING: Final[dict[str, tuple[str, ...]]] = {
    "config check": ("--connect",),
    "control check": (),
    "control adopt": ("--yes",),
    "divergence": (),
    "divergence export": ("--to", "saved"),
    "divergence verify": ("none.json",),
    "drill cleanup": (),
    "drill run": ("--kind", "readiness"),
    "failback": ("--yes",),
    "failover": ("--all", "--yes"),
    "fence lift": ("--yes",),
    "fence pay": ("--yes",),
    "fence show": (),
    "replay": ("--from", "none.json"),
    "replicate": ("--once",),
    "repoint apply": ("--to", "standby"),
    "reprotect": ("--yes",),
    "status": (),
    "translate": ("--group", "g"),
    "translate spark-checkpoint": ("none", "--dry-run"),
    "verify": (),
    "watch": ("--once", "1"),
    "watch acknowledge": (),
    "watch pause": ("--reason", "test"),
    "watch resume": (),
}
"""Commands that ask a cluster, with the options that are typed."""
QUICK: Final = {"config check", "status"}
"""Others wait until a connection is given up: 10 s and more."""
WITHOUT: Final = {
    "drkit completion", "drkit demo", "drkit explain", "drkit fence-agent", "drkit help",
    "drkit chaos list", "drkit chaos run", "drkit config init", "drkit config schema", "drkit config show",
    "drkit control create", "drkit drill history", "drkit drill report", "drkit drill schedule",
    "drkit files list", "drkit files show", "drkit files write", "drkit local down", "drkit local kill",
    "drkit local start", "drkit local status", "drkit local up", "drkit repoint show",
}  # fmt: skip
"""They ask no cluster of the configuration, run until they are stopped, or bring their own clusters."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["control", "create", "control.key"]) == 0
    file = tmp_path / "drkit.toml"
    text = silent_pair(_TABLES.format(folder=tmp_path))
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("command", [c if c in QUICK else in_wide(c) for c in ASKING])
def test_no_cluster_answers(command: str, config: Path):
    said = drkit(config, *command.split(), *ASKING[command])
    answer = said.data if said.out else None
    errors = re.findall(r"^\{\n.*?^\}$", said.err, re.MULTILINE | re.DOTALL)
    assert answer is not None or errors, said.err
    if errors:
        (error,) = map(json.loads, errors)
        assert error["code"] in ERRORS
        assert error["exit_code"] == said.code
    assert said.code in {1, 2, 3}, said


def test_each_command_that_asks_a_cluster_is_here():
    runs = {
        path
        for path, command in commands()
        if not isinstance(command, click.Group) or command.invoke_without_command
    }
    assert runs == WITHOUT | {f"drkit {command}" for command in ASKING}
