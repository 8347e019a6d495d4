"""``drkit local``: a primary/standby pair of real Kafka clusters on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from drkit.cli.render import emit
from drkit.local.pair import LocalPair, default_folder

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the pair keeps its state, data and logs.  [default: the user's state folder]",
)
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
def up(folder: Path | None, brokers: int, config: Path, *, as_json: bool) -> None:
    """Start the pair and write a configuration for it."""
    pair = LocalPair(folder or default_folder())
    emit(pair.up(config, brokers=brokers, progress=lambda line: click.echo(line, err=True)), as_json)


@local.command()
@_folder
@_json
def down(folder: Path | None, *, as_json: bool) -> None:
    """Stop the pair; its data and its configuration are removed."""
    emit(LocalPair(folder or default_folder()).down(), as_json)


@local.command()
@_folder
@_json
def status(folder: Path | None, *, as_json: bool) -> None:
    """Show which brokers run and answer."""
    emit(LocalPair(folder or default_folder()).status(), as_json)
