"""``drkit config``: the settings, where they come from, and whether the clusters accept them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag


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
@flag(
    "--connect",
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
@flag(
    "--both-ways",
    group=OptionGroup.HOW,
    help="Also write the flow back, which protects the new primary after a failover.",
)
def init(**given: Any) -> None:
    """Write a commented configuration file to start from.

    PATH defaults to drkit.toml. An existing file is not overwritten.
    """
    work("drkit.cli.actions.config").init(**given)


@config.command(
    examples={
        "drkit config show": "Show what differs from the defaults, and where it comes from",
        "drkit config show --all": "Show every setting",
        "drkit config show --plan": "Show what drkit would change on the targets",
        "drkit config show --set 'flows.primary->standby.tasks=4'": "See the effect of a setting",
    }
)
@flag("--all", "everything", group=OptionGroup.HOW, help="Also show the settings that have their defaults.")
@flag("--plan", group=OptionGroup.HOW, help="Connect and show what would be changed on the targets, and why.")
def show(**given: Any) -> None:
    """Show the settings that differ from their defaults, and where they come from.

    Secrets stay hidden. JSON always has every setting.
    """
    work("drkit.cli.actions.config").show(**given)


@config.command(
    examples={
        "drkit config schema > drkit.schema.json": "Write the schema for an editor",
        "drkit config show --json": "See the values that it describes",
        "drkit config check": "Check them without an editor",
    }
)
def schema() -> None:
    """Print the JSON schema of drkit.toml, for completion and checks in an editor.

    drkit config schema > drkit.schema.json, then `#:schema ./drkit.schema.json` as the first line of
    drkit.toml.
    """
    work("drkit.cli.actions.config").schema()
