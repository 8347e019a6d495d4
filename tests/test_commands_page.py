"""docs/reference/commands.md is the commands' own help, and each of them is on it."""

from __future__ import annotations

from pathlib import Path

import click

from drkit.cli.options import Option
from tests.commands import PAGE, commands, page

ROOT = Path(__file__).parents[1]


def test_the_page_is_up_to_date():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(), "run: python -m tests.commands"


def test_each_command_and_each_of_its_options_is_there():
    sections = page().split("\n## ")[1:]
    found = {section.partition("\n")[0].strip("`"): section for section in sections}
    assert set(found) == {path for path, _ in commands()}
    assert {"drkit failover", "drkit watch pause", "drkit translate spark-checkpoint"} < set(found)
    for path, command in commands():
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                where = path if isinstance(option, Option) else "drkit"
                assert option.opts[-1] in found[where], (path, option.opts)
