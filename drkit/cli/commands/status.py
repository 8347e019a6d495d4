"""``drkit status``: roles, lag, current RPO, positions of groups, and faults."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@command(
    examples={
        "drkit status": "Show all flows",
        "drkit status --short": "Show one line for each flow",
        "drkit status --watch": "Refresh until Ctrl-C",
        "drkit status --group billing": "Show where one group would resume, by partition",
        "drkit status --json": "Print JSON for a script; exit code 1 means a fault",
    }
)
@options.flows()
@option(
    "--group",
    "groups",
    multiple=True,
    group=OptionGroup.SELECTION,
    help="Show only this group, with each of its partitions.",
)
@flag("--all-groups", group=OptionGroup.OUTPUT, help="Show a line for every group.")
@flag("--short", group=OptionGroup.OUTPUT, help="One line for each flow: role, health, lag, loss, faults.")
@flag("--partitions", group=OptionGroup.OUTPUT, help="Show each partition, not only sums by topic.")
@flag("--watch", group=OptionGroup.OUTPUT, help="Refresh until Ctrl-C.")
@option(
    "--interval",
    type=click.FloatRange(0.2),
    default=2.0,
    metavar="SECONDS",
    group=OptionGroup.OUTPUT,
    help="With --watch: time between refreshes.",
)
def status(**given: Any) -> Any:
    """Show lag, current RPO, group readiness and faults of each flow.

    Also shows which process replicates it, what a failover now would lose, and where each consumer group
    would resume. Reads both clusters, so it works from any host. If the primary is down, it shows the last
    known figures and their age.

    Exit code: 0 healthy, 1 there is a fault.
    """
    return work("drkit.cli.actions.status").status(**given)
