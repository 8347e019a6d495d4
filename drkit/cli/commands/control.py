"""``drkit control``: the key with which drkit's processes know each other's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work

_flows = click.option("--flow", "names", multiple=True, help="As 'primary->standby'.  [default: all]")


@click.group()
def control() -> None:
    """The control key: only records of drkit's own processes count in its topics."""


@control.command()
@click.argument("path", type=click.Path(path_type=Path))
def create(**given: Any) -> None:
    """Make a key in a new file that its owner alone can read. The same file goes to every host of drkit."""
    work("drkit.cli.actions.control").create(**given)


@control.command()
@_flows
def check(**given: Any) -> Any:
    """Count the records of drkit's topics by their MACs. Exit code: 0 all that is needed has one, 3 not."""
    return work("drkit.cli.actions.control").check(**given)


@control.command()
@_flows
@click.option("--dry-run", is_flag=True, help="Show what would be signed; change nothing.")
@click.option("--again", is_flag=True, help="Also adopt what came without a MAC after the first time.")
@click.option("--discard", is_flag=True, help="Delete records without a MAC whose key has none with one.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def adopt(**given: Any) -> None:
    """Sign what a pair wrote before it had a control key, or with an older one.

    Every process of the flow is stopped first. What is signed is believed from then on: look at it before.
    """
    work("drkit.cli.actions.control").adopt(**given)
