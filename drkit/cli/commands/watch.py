"""``drkit watch``: detection and, as configured, failover."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, option, text


@group(
    invoke_without_command=True,
    examples={
        "drkit watch": "Monitor all flows until stopped",
        "drkit watch --once 5": "Print one verdict after at least 5 seconds",
        "drkit watch --observer rack-b": "Vote under another name than the host's",
        "drkit watch pause --reason 'network maintenance'": "Suspend failovers; monitoring continues",
        "drkit explain hold-no-quorum": "Read what a verdict means and what to do",
    },
)
@options.flows()
@option(
    "--observer",
    metavar="NAME",
    group=OptionGroup.HOW,
    default_is="watch.name, else the host's name",
    help="Name under which this observer votes.",
)
@option(
    "--once",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    group=OptionGroup.HOW,
    help="Watch for this long, print the verdict and exit.",
)
@options.metrics("a page")
@click.pass_context
def watch(context: click.Context, /, **given: Any) -> Any:
    """Detect a lost primary; propose or start a failover.

    Reports the primary as UP, SUSPECT, DEGRADED, HOLD (with the reason) or LOST. Mode approve prints and
    posts the command to run. Mode auto starts the failover if its own conditions hold. --json prints one line
    for each change.

    --once prints only the last verdict: it does not vote, send alerts or start anything. It takes up to
    confirm_seconds and 15 s longer if a failure is not confirmed yet, a flow has not been checked yet, or
    replication has not been watched for confirm_seconds.

    Exit code with --once: 0 up, 1 suspect, degraded or lost, 3 on hold.
    """
    return work("drkit.cli.actions.watch").watch(**given) if context.invoked_subcommand is None else 0


@watch.command(
    examples={
        "drkit watch pause --reason 'network maintenance'": "Suspend failovers of all flows",
        "drkit watch pause --flow 'primary->standby'": "Suspend failovers of one flow",
        "drkit watch resume": "End the pause",
    }
)
@options.flows()
@text("--reason", metavar="REASON", group=OptionGroup.HOW, help="Why; the reason is recorded.")
def pause(**given: Any) -> None:
    """Suspend automatic and proposed failovers; monitoring continues."""
    work("drkit.cli.actions.watch").pause(**given)


@watch.command(
    examples={
        "drkit watch resume": "End the pause of all flows",
        "drkit watch resume --flow 'primary->standby'": "End the pause of one flow",
        "drkit watch --once 5": "Check the verdict afterwards",
    }
)
@options.flows()
def resume(**given: Any) -> None:
    """End a pause."""
    work("drkit.cli.actions.watch").resume(**given)


@watch.command(
    examples={
        "drkit status": "Review what the failover did",
        "drkit watch acknowledge": "Allow the next automatic failover of all flows",
        "drkit watch acknowledge --flow 'primary->standby'": "Allow it for one flow",
    }
)
@options.flows()
def acknowledge(**given: Any) -> None:
    """Confirm that the last automatic failover was reviewed.

    Until then there is no other automatic failover.
    """
    work("drkit.cli.actions.watch").acknowledge(**given)
