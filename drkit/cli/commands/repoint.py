"""``drkit repoint``: the cluster that clients are pointed to, and repointing by hand."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.group()
def repoint() -> None:
    """The cluster that clients are pointed to. A failover repoints them by itself."""


@repoint.command()
def show() -> None:
    """Show what each way of [failover] repoint tells now."""
    work("drkit.cli.actions.repoint").show()


@repoint.command()
@click.option("--to", "alias", required=True, help="The cluster, by its alias.")
@click.option("--term", type=click.IntRange(0), help="As of which term; the larger one counts.  [default: 0]")
def apply(**given: Any) -> None:
    """Tell all clients to go to a cluster: before the first failover, or a new way of telling.

    Clients that know another cluster follow only a larger --term, and without their positions being moved:
    that is what drkit failover is for.
    """
    work("drkit.cli.actions.repoint").apply(**given)
