"""``drkit chaos``: break a local pair on purpose, and check whether drkit held its promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@group(
    examples={
        "drkit chaos list": "List the scenarios",
        "drkit chaos run primary-killed": "Run one scenario",
        "drkit chaos run --all": "Run all scenarios",
        "drkit explain primary-killed": "Read what a scenario does",
    }
)
def chaos() -> None:
    """Break a local pair of clusters and check drkit's promises.

    Each scenario starts two clusters of its own on this machine, needs no configuration, and never touches
    yours. It needs two packages: pip install 'chaostoolkit-lib>=1.44,<1.45' 'pyyaml>=6,<7'.
    """


@chaos.command(
    "list",
    examples={
        "drkit chaos list": "List the scenarios",
        "drkit chaos list --coverage": "List them by the step of their fault",
        "drkit chaos list --json": "The same as JSON",
    },
)
@flag(
    "--coverage",
    group=OptionGroup.OUTPUT,
    help="For each step, list the scenarios with a fault in force there.",
)
def list_scenarios(**given: Any) -> None:
    """List the scenarios: fault, step and page of each."""
    work("drkit.cli.actions.chaos").list_scenarios(**given)


@chaos.command(
    examples={
        "drkit chaos run primary-killed": "Run one scenario",
        "drkit chaos run my-scenario.yaml": "Run a scenario of your own",
        "drkit chaos run --all --seed 7": "Run all scenarios with another schedule",
    }
)
@click.argument("names", metavar="NAME|FILE...", nargs=-1)
@flag("--all", "whole", group=OptionGroup.SELECTION, help="Run all scenarios, one after the other.")
@option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    default=0,
    show_default=True,
    group=OptionGroup.HOW,
    help="Seed of the clients' schedule and the groups' positions.",
)
@option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    group=OptionGroup.OUTPUT,
    default_is="chaos in the user's state folder of drkit",
    help="Folder for histories.",
)
def run(**given: Any) -> Any:
    """Run scenarios and print a verdict for each.

    A scenario starts a pair and clients, injects a fault at a named step, and checks the promises. Ctrl-C
    stops everything that it started. Its history stays in the folder.

    Exit code: 0 pass, 1 fail, 3 inconclusive: something was not exercised, or could not be read.
    """
    return work("drkit.cli.actions.chaos").run(**given)
