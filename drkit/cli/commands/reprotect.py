"""``drkit reprotect``: make the old primary the standby of the new one, continue that, or roll it back."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.command()
@click.option("--flow", help="The flow that was switched over.  [default: the only one that waits for it]")
@click.option(
    "--clients-cut",
    metavar="HOW",
    default="",
    help="How clients are kept off the old primary, if it has no authorizer; on record.",
)
@click.option("--dry-run", is_flag=True, help="Show what each step would do; change nothing.")
@click.option("--resume", is_flag=True, help="Continue the return that is under way.")
@click.option("--abort", is_flag=True, help="Roll back; only before the step BEGIN.")
@click.option("--take-over", is_flag=True, help="With --resume or --abort: its process is dead, do not wait.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--verbose", is_flag=True, help="A report with each step's notes and seconds.")
def reprotect(**given: Any) -> None:
    """Make the old primary the standby of the new one, after a planned switchover.

    Nothing is copied that both have. A running `drkit replicate` of the reverse flow does it by itself.

    After a failover that was no switchover it is refused: the old primary may have records of its own.

    Exit code: 0 done, 1 failed (resume it), 3 refused or held, with the reason and what clears it.
    """
    work("drkit.cli.actions.reprotect").reprotect(**given)
