"""``drkit watch``: detection and, as configured, failover."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work

_flows = click.option("--flow", "names", multiple=True, help="As 'primary->standby'.  [default: all]")


@click.group(invoke_without_command=True)
@_flows
@click.option(
    "--observer", help="The name under which this one votes.  [default: watch.name, else the host's name]"
)
@click.option("--once", type=click.FloatRange(0.1), metavar="SECONDS", help="Watch for this long, then exit.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve /metrics, /healthz and a page.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True, help="On which address.")
@click.pass_context
def watch(context: click.Context, /, **given: Any) -> Any:
    """Say whether the primary is up, suspect, degraded, on hold for a reason, or lost.

    Mode approve prints and posts the command to run; mode auto fails over by itself, under conditions of
    its own. With --json: one line for each change. With --once only the last verdict: such a look does
    not vote, notifies no one and starts nothing.

    Such a look continues, for up to confirm_seconds and 15 s, while a failure is not confirmed, the flow was
    not looked at yet, or replication was not watched for confirm_seconds.

    Exit code with --once: 0 up, 1 suspect, degraded or lost, 3 on hold.
    """
    return work("drkit.cli.actions.watch").watch(**given) if context.invoked_subcommand is None else 0


@watch.command()
@_flows
@click.option("--reason", default="", help="The reason, on record.")
def pause(**given: Any) -> None:
    """Begin and propose no failover until resumed; everything is still watched."""
    work("drkit.cli.actions.watch").pause(**given)


@watch.command()
@_flows
def resume(**given: Any) -> None:
    """End a pause."""
    work("drkit.cli.actions.watch").resume(**given)


@watch.command()
@_flows
def acknowledge(**given: Any) -> None:
    """Confirm that the last automatic failover was reviewed: only then may there be another."""
    work("drkit.cli.actions.watch").acknowledge(**given)
