"""``drkit fence-agent``: beside the primary, stops writes there when its lease is lost."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.command("fence-agent")
@click.option("--flow", help="The flow whose source is guarded.  [default: the only one]")
@click.option("--name", help="What this agent is called.  [default: the host's name]")
@click.option("--lift", "lifts", is_flag=True, help="Let the primary take writes again, after a fence.")
def fence_agent(**given: Any) -> None:
    """Hold a lease that the observers renew; when it is lost, fence the primary here, and prove it.

    Runs until stopped. Once it has fenced it stays so until a person says --lift.
    """
    work("drkit.cli.actions.fence_agent").fence_agent(**given)
