"""``drkit local``: a primary/standby pair of real Kafka clusters on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, option

_folder = option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    group=OptionGroup.SELECTION,
    default_is="the user's state folder",
    help="Folder for the pair's state, data and logs.",
)
_cluster = click.argument("cluster", type=click.Choice(["primary", "standby"]))


@group(
    examples={
        "drkit local up": "Start a pair and write drkit.toml",
        "drkit local kill primary": "Kill the primary, then try drkit watch --once 5",
        "drkit local start primary": "Bring it back with its data",
        "drkit local down": "Stop the pair and delete its data",
    }
)
def local() -> None:
    """Start and stop a pair of local clusters to try drkit."""


@local.command(
    examples={
        "drkit local up": "Start a pair with one broker each and write drkit.toml",
        "drkit local up --brokers 3": "Start three brokers for each cluster",
        "drkit local up --folder /tmp/pair --write /tmp/pair.toml": "Use other places",
    }
)
@_folder
@option(
    "--brokers",
    type=click.IntRange(1, 5),
    metavar="COUNT",
    default=1,
    group=OptionGroup.HOW,
    help="Brokers per cluster.",
)
@option(
    "--write",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("drkit.toml"),
    group=OptionGroup.OUTPUT,
    help="Configuration file to write.",
)
def up(**given: Any) -> None:
    """Start the pair and write a configuration for it."""
    work("drkit.cli.actions.local").up(**given)


@local.command(
    examples={
        "drkit local down": "Stop the pair and delete its data",
        "drkit local down --folder /tmp/pair": "Stop the pair in another folder",
        "drkit local status": "Check that nothing runs",
    }
)
@_folder
def down(**given: Any) -> None:
    """Stop the pair; delete its data and its configuration."""
    work("drkit.cli.actions.local").down(**given)


@local.command(
    examples={
        "drkit local kill primary": "Kill the primary",
        "drkit local kill standby": "Kill the standby",
        "drkit local start primary": "Bring the primary back",
    }
)
@_cluster
@_folder
def kill(**given: Any) -> None:
    """Kill one cluster as a power cut does; its data remains."""
    work("drkit.cli.actions.local").kill(**given)


@local.command(
    examples={
        "drkit local start primary": "Bring the primary back",
        "drkit local start standby": "Bring the standby back",
        "drkit local status": "Check that its brokers answer",
    }
)
@_cluster
@_folder
def start(**given: Any) -> None:
    """Start a killed cluster again, with its data and addresses."""
    work("drkit.cli.actions.local").start(**given)


@local.command(
    examples={
        "drkit local status": "Show the brokers of the pair",
        "drkit local status --folder /tmp/pair": "Show the pair in another folder",
        "drkit local status --json": "The same as JSON",
    }
)
@_folder
def status(**given: Any) -> None:
    """Show which brokers run and answer."""
    work("drkit.cli.actions.local").status(**given)
