"""``drkit local``: a primary/standby pair of real Kafka clusters on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the pair keeps its state, data and logs.  [default: the user's state folder]",
)


_cluster = click.argument("cluster", type=click.Choice(["primary", "standby"]))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def local() -> None:
    """A primary/standby pair of Kafka clusters to play with."""


@local.command()
@_folder
@click.option(
    "--brokers", type=click.IntRange(1, 5), default=1, show_default=True, help="Brokers per cluster."
)
@click.option(
    "--write",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("drkit.toml"),
    show_default=True,
    help="The configuration to write.",
)
@_json
def up(**given: Any) -> None:
    """Start the pair and write a configuration for it."""
    work("drkit.cli.actions.local").up(**given)


@local.command()
@_folder
@_json
def down(**given: Any) -> None:
    """Stop the pair; its data and its configuration are removed."""
    work("drkit.cli.actions.local").down(**given)


@local.command()
@_cluster
@_folder
@_json
def kill(**given: Any) -> None:
    """End one cluster at once, as a power cut does; its data remains."""
    work("drkit.cli.actions.local").kill(**given)


@local.command()
@_cluster
@_folder
@_json
def start(**given: Any) -> None:
    """Start one cluster again after `kill`, with its data and at its addresses."""
    work("drkit.cli.actions.local").start(**given)


@local.command()
@_folder
@_json
def status(**given: Any) -> None:
    """Show which brokers run and answer."""
    work("drkit.cli.actions.local").status(**given)
