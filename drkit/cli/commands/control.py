"""``drkit control``: the key with which drkit's processes authenticate each other's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@group(
    examples={
        "drkit control create /etc/drkit/control.key": "Create a key; copy it to every host of drkit",
        "drkit control check": "Count records with and without a valid MAC",
        "drkit control adopt --dry-run": "Show which older records would be signed",
        "drkit explain control-key": "Read about the control key",
    }
)
def control() -> None:
    """Manage the key that authenticates drkit's internal records."""


@control.command(
    examples={
        "drkit control create /etc/drkit/control.key": "Create a key",
        "drkit control create new.key": "Create its successor",
        "drkit explain control-key": "Read how to install and rotate keys",
    }
)
@click.argument("path", type=click.Path(path_type=Path))
def create(**given: Any) -> None:
    """Create a key file that only its owner can read.

    Copy the same file to every host that runs drkit.
    """
    work("drkit.cli.actions.control").create(**given)


@control.command(
    examples={
        "drkit control check": "Check all flows",
        "drkit control check --flow 'primary->standby'": "Check one flow",
        "drkit control check --json": "The same as JSON",
    }
)
@options.flows()
def check(**given: Any) -> Any:
    """Count drkit's records with and without a valid MAC.

    Exit code: 0 every needed record has one, 3 at least one has none.
    """
    return work("drkit.cli.actions.control").check(**given)


@control.command(
    examples={
        "drkit control adopt --dry-run": "Show what would be signed",
        "drkit control adopt": "Sign what was written before there was a key",
        "drkit control adopt --discard role/orders": "Delete a record that check lists",
    }
)
@options.flows()
@options.dry_run("Show what would be signed; change nothing.")
@flag(
    "--again",
    group=OptionGroup.ACCEPT,
    help="Also sign records that arrived without a MAC after the first adoption.",
)
@option(
    "--sign",
    multiple=True,
    metavar="NAME",
    group=OptionGroup.ACCEPT,
    help="Also sign the records of this key, or of this topic of journal or fences. check lists the names.",
)
@option(
    "--discard",
    multiple=True,
    metavar="NAME",
    group=OptionGroup.ACCEPT,
    help="Delete them instead. drkit then acts as if it had never written them.",
)
@options.yes()
def adopt(**given: Any) -> None:
    """Sign records from before the control key, or an older one.

    Stop every process of the flow first. Signed records are trusted from then on: check them before.
    """
    work("drkit.cli.actions.control").adopt(**given)
