"""``drkit repoint``: the cluster that clients connect to."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, option
from drkit.endpoint import LARGEST_TERM


@group(
    examples={
        "drkit repoint show": "Show the cluster that each endpoint names now",
        "drkit repoint apply --to primary": "Publish the primary, before the first failover",
        "drkit explain repointing": "Read about kinds of endpoints",
    }
)
def repoint() -> None:
    """Show or change the cluster that clients connect to.

    A failover repoints clients itself.
    """


@repoint.command(
    examples={
        "drkit repoint show": "Show the cluster that each endpoint names now",
        "drkit repoint show --json": "The same as JSON",
        "drkit repoint show --config /etc/drkit/drkit.toml": "With another configuration file",
    }
)
def show() -> None:
    """Show the cluster that each endpoint in [failover] repoint names."""
    work("drkit.cli.actions.repoint").show()


@repoint.command(
    examples={
        "drkit repoint apply --to primary": "Publish the primary, before the first failover",
        "drkit repoint apply --to standby --term 3": "Publish the standby as of term 3",
        "drkit repoint show": "Check the result",
    }
)
@option(
    "--to", "alias", metavar="CLUSTER", required=True, group=OptionGroup.HOW, help="Alias of the cluster."
)
@option(
    "--term",
    type=click.IntRange(0, LARGEST_TERM // 2),
    metavar="NUMBER",
    group=OptionGroup.HOW,
    default_is="0",
    help="Term to publish; clients follow the largest one.",
)
def apply(**given: Any) -> None:
    """Direct all clients to a cluster.

    Use it before the first failover, or for a new endpoint. Clients that use another cluster follow only a
    larger --term. Their positions do not move: use drkit failover for that.
    """
    work("drkit.cli.actions.repoint").apply(**given)
