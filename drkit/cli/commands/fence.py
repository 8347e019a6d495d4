"""``drkit fence``: how the old primary is fenced; apply a pending fence, or lift it."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work

_flow = click.option(
    "--flow",
    help="The flow, as 'primary->standby'.  [default: the only one; of several the only one that owes a fence"
    " or its lift, or else waits for its return]",
)
_lifts = click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")


_dry = click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")


@click.group()
def fence() -> None:
    """Fences of the old primary, outside a failover: show, apply pending ones, lift."""


@fence.command()
@_flow
def show(**given: Any) -> None:
    """Show every active and pending fence, and probe with a canary whether producers are refused."""
    work("drkit.cli.actions.fence").show(**given)


@fence.command()
@_flow
@_dry
@click.option(
    "--yes", is_flag=True, help="Do not ask before a fence is put up again that somebody has lifted."
)
def pay(**given: Any) -> None:
    """Put up the fences that are missing on the old primary, and lift those that an abort left there.

    A fence is put up as in the failover: proven by a canary on every partition, open transactions resolved.
    The fence of a failover that was rolled back is lifted. Where the new primary owns a topic, a fence that
    somebody else has lifted is put up again; so is one that drkit fence lift has lifted.

    Exit code: 0 applied, or nothing is pending in any flow; 1 the primary does not answer; 3 it still takes
    writes.
    """
    work("drkit.cli.actions.fence").pay(**given)


@fence.command()
@_lifts
@_dry
@click.option("--topic", "topics", multiple=True, help="A topic of the source. Repeatable.  [default: all]")
@click.option("--accept-divergence", metavar="REASON", default="", help="Both may take writes; on record.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def lift(**given: Any) -> None:
    """Lift active fences, and drop pending ones. An abort does this by itself.

    Exit code: 0 lifted, 1 it does not answer, 3 the new primary owns these topics.
    """
    work("drkit.cli.actions.fence").lift(**given)
