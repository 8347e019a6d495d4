"""``drkit status``: roles, lag, what a failover now would lose, positions of groups, and faults."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.command()
@click.option("--flow", "names", multiple=True, help="A flow such as 'primary->standby'.  [default: all]")
@click.option("--group", "groups", multiple=True, help="Only this group, with each of its partitions.")
@click.option("--all-groups", is_flag=True, help="A line for every group, however many.")
@click.option("--short", is_flag=True, help="One line for each flow: role, health, lag, loss, faults.")
@click.option("--partitions", is_flag=True, help="Each partition, not only sums by topic.")
@click.option("--watch", is_flag=True, help="Look again and again until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, metavar="SECONDS",
              help="With --watch: time between two looks.")  # fmt: skip
def status(**given: Any) -> Any:
    """Show for each flow who runs it, how far the target lags, and what a failover now would mean.

    What it would lose, and where each consumer group would read on. Everything is asked of the clusters, so
    it works from any machine, also when the primary is gone: then what was known of it last counts, and its
    age is said.

    Exit code: 0 all is well, 1 there is a fault.
    """
    return work("drkit.cli.actions.status").status(**given)
