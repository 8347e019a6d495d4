"""``drkit config``: the settings, where they come from, and whether the clusters accept them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, option


@group(
    examples={
        "drkit config init": "Write a commented drkit.toml to start from",
        "drkit config check --connect": "Validate it, also against the clusters",
        "drkit config show --plan": "Show what drkit would change on the targets",
        "drkit explain configuration": "Read about all settings",
    }
)
def config() -> None:
    """Show and validate the configuration."""


@config.command(
    examples={
        "drkit config check": "Validate ./drkit.toml",
        "drkit config check --connect": "Also connect to the clusters",
        "drkit config check --config mm2.properties": "Validate MirrorMaker 2's file",
    }
)
@option(
    "--connect",
    is_flag=True,
    group=OptionGroup.HOW,
    help="Also connect: check cluster ids and permissions, list who may write to drkit's topics.",
)
def check(**given: Any) -> None:
    """List every problem of the configuration, or print OK."""
    work("drkit.cli.actions.config").check(**given)


@config.command(
    examples={
        "drkit config init": "Write drkit.toml in this folder",
        "drkit config init /etc/drkit/drkit.toml": "Write another file",
        "drkit config check": "Validate what you edited",
    }
)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default=Path("drkit.toml"))
def init(**given: Any) -> None:
    """Write a commented configuration file to start from.

    PATH defaults to drkit.toml. An existing file is not overwritten.
    """
    work("drkit.cli.actions.config_init").init(**given)


@config.command(
    examples={
        "drkit config show": "Show every setting and where it comes from",
        "drkit config show --plan": "Show what drkit would change on the targets",
        "drkit config show --set 'flows.primary->standby.tasks=4'": "See the effect of a setting",
    }
)
@option(
    "--plan",
    is_flag=True,
    group=OptionGroup.HOW,
    help="Connect and show what would be changed on the targets, and why.",
)
def show(**given: Any) -> None:
    """Show every setting, its value and where it comes from.

    Secrets stay hidden.
    """
    work("drkit.cli.actions.config").show(**given)
