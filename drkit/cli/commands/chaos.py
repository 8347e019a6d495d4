"""``drkit chaos``: break a local pair on purpose, and judge whether drkit held its promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work


@click.group()
def chaos() -> None:
    """Break a local pair on purpose, and judge whether drkit held its promises.

    Each scenario starts two clusters of its own on this machine, needs no configuration, and never touches
    yours. It needs the packages of the chaos extra: pip install 'drkit[chaos]'.
    """


@chaos.command("list")
@click.option(
    "--coverage", is_flag=True, help="Step by step: the scenarios that have a fault in force there."
)
def list_scenarios(**given: Any) -> None:
    """List the scenarios: what breaks, at which step, and the page for it."""
    work("drkit.cli.actions.chaos").list_scenarios(**given)


@chaos.command()
@click.argument("names", metavar="NAME|FILE...", nargs=-1)
@click.option("--all", "whole", is_flag=True, help="All scenarios, one after the other.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the clients' schedule and the groups' positions; another one is another walk.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where histories stay.  [default: chaos in the user's state folder of drkit]",
)
def run(**given: Any) -> int:
    """Run scenarios: a pair, clients, a fault at a named step, a verdict with what was examined.

    Ctrl-C ends everything that a scenario has started. Its history stays in the folder that is named.

    Exit code: 0 pass, 1 fail, 3 inconclusive: something was not exercised, or could not be read.
    """
    code: int = work("drkit.cli.actions.chaos").run(**given)
    return code
