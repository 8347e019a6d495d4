"""``drkit explain``: the page of a refusal, a hold, a fault or an event."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.command()
@click.argument("words", metavar="[CODE]...", nargs=-1)
def explain(**given: Any) -> None:
    """Print what a refusal, a hold or an event means and what to do about it; without a code, list all.

    CODE is a name such as no_quorum, failover-no-quorum or source_gap, or some words of the message.
    """
    work("drkit.cli.actions.explain").explain(**given)
