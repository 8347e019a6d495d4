"""``drkit failback``: bring clients back to the cluster that they were failed over from."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.commands.back.options import decisions
from drkit.cli.loading import work


@click.command()
@click.option(
    "--flow",
    help="The flow that was failed over: its source is home.  [default: the only one, or the only one whose"
    " primary was lost]",
)
@decisions
@click.option("--wait-seconds", type=click.FloatRange(min=0.0), default=3600.0, show_default=True,
    help="How long to wait until home is in step; then run it again.")  # fmt: skip
@click.option(
    "--acls-only-home",
    type=click.Choice(["remove", "keep"]),
    default=None,
    help="ACLs that give clients at home what they may not do where they are now.",
)
@click.option("--evict-members", is_flag=True, help="Remove members from groups at home before the switch.")
@click.option("--dry-run", is_flag=True, help="Show what the next stage would do; change nothing.")
@click.option("--take-over", is_flag=True, help="The process of a run under way is dead, do not wait.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--verbose", is_flag=True, help="Reports with each step's notes and seconds.")
def failback(**given: Any) -> None:
    """Bring clients home: return, wait until home is in step, switch over as planned, and turn.

    Each stage leaves records on the clusters: run again, it continues at the stage that is next. The stages
    alone: drkit reprotect, drkit failover --planned of the flow back, drkit reprotect of the flow back.

    Exit code: 0 done, 1 failed or not in step yet (run it again), 3 refused or held, with the reason.
    """
    work("drkit.cli.actions.back.failback").failback(**given)
