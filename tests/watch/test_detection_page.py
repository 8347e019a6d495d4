"""docs/detection.md and the runbooks keep up with the table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
import re
import shlex

import click
import pytest

from drkit.cli.common import equip
from drkit.cli.main import _COMMANDS
from drkit.detect.verdict import TABLE, Kind, Reason, runbook
from drkit.watch.reference import PAGE, PARTS, filled

ROOT = Path(__file__).parents[2]
HOLDS = [row.reason for row in TABLE if row.kind is Kind.HOLD]
PAGES = sorted((ROOT / "runbooks").glob("hold-*.md"))


def test_the_generated_parts_are_up_to_date():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert filled(page) == page, "run: python -m drkit.watch.reference"
    assert all(f"<!-- generated: {name} -->" in page for name in PARTS)


@pytest.mark.parametrize("reason", HOLDS)
def test_every_hold_has_its_runbook(reason: Reason):
    text = (ROOT / runbook(reason)).read_text(encoding="utf-8")
    assert f"`HOLD({reason})`" in text
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert parts == ["What it means", "What was seen", "What to do"]
    assert "```sh\ndrkit " in text


def test_no_runbook_of_a_hold_that_is_not_there():
    assert {p.name for p in PAGES} == {Path(runbook(r)).name for r in HOLDS}


@pytest.mark.parametrize("path", [*PAGES, ROOT / "runbooks/fence-agent-has-fenced.md"], ids=lambda p: p.stem)
def test_every_command_of_a_runbook_exists(path: Path):
    blocks = re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "drkit"
        row = _COMMANDS[words[1]]
        command: click.Command = getattr(import_module(row.module), row.attribute)
        equip(command)
        # Parsed, not run: an option or argument that is not there raises.
        context = command.make_context(words[1], words[2:], resilient_parsing=False)
        if isinstance(command, click.Group) and context._protected_args:
            name, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert inner is not None
            inner.make_context(name, rest, parent=context)
