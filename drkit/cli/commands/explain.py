"""``drkit explain``: any page, code or word."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag


@command(
    examples={
        "drkit explain night": "Print a page: how to decide at night",
        "drkit explain failover-no-quorum": "Print what a refusal means and what to do",
        "drkit explain source_gap": "Explain an event; also alerts, faults, verdicts and exit codes",
        "drkit explain rpo_seconds": "Explain a setting",
        "drkit explain --list": "List all names",
    }
)
@click.argument("words", metavar="[NAME]...", nargs=-1)
@flag(
    "--list",
    "listed",
    group=OptionGroup.OUTPUT,
    help="List all names by kind, or those of the kinds that NAME gives.",
)
def explain(**given: Any) -> None:
    """Explain a page, code, event, alert, setting or word.

    NAME is a page by its path or file name, a code that a message prints, or a word of the glossary. Without
    NAME, all names are listed.
    """
    work("drkit.cli.actions.explain").explain(**given)
