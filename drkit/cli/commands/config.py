"""``drkit config``: what is set, from where, and whether the clusters answer to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work


@click.group()
def config() -> None:
    """What is set and from where; whether it can work."""


@config.command()
@click.option(
    "--connect",
    is_flag=True,
    help="Also connect: compare cluster ids, ask for permissions, list who may write to drkit's topics.",
)
def check(**given: Any) -> None:
    """Name every problem of the configuration, or say OK."""
    work("drkit.cli.actions.config").check(**given)


@config.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default=Path("drkit.toml"))
@click.option(
    "--both-ways",
    is_flag=True,
    help="Also write the flow back, which protects the new primary after a failover.",
)
def init(**given: Any) -> None:
    """Write a configuration with comments to begin with; an existing file is not overwritten.

    PATH is drkit.toml unless it is named.
    """
    work("drkit.cli.actions.config_init").init(**given)


@config.command()
def schema() -> None:
    """Print the JSON schema of drkit.toml, for completion and checks in an editor.

    drkit config schema > drkit.schema.json, then `#:schema ./drkit.schema.json` as the first line of
    drkit.toml.
    """
    work("drkit.cli.actions.config").schema()


@config.command()
@click.option("--all", "everything", is_flag=True, help="Also the settings that have their defaults.")
@click.option("--plan", is_flag=True, help="Connect and show what would be changed on the targets, and why.")
def show(**given: Any) -> None:
    """Show settings that differ from their defaults, with their values and origins; secrets stay hidden.

    JSON always has every setting.
    """
    work("drkit.cli.actions.config").show(**given)
