"""``drkit reprotect``: make the old primary the standby of the new one, continue that, or roll it back."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.commands.back.options import decisions
from drkit.cli.loading import work


@click.command()
@click.option("--flow", help="The flow that was failed over.  [default: the only one that waits for it]")
@decisions
@click.option(
    "--to",
    metavar="CLUSTER",
    help="A third cluster instead of the old primary, which stays as it is: checks the flow to it.",
)
@click.option("--plan", is_flag=True, help="Sizes, choices and commands, topic by topic; change nothing.")
@click.option("--dry-run", is_flag=True, help="Show what each step would do; change nothing.")
@click.option(
    "--hold",
    is_flag=True,
    help="Only let the new primary keep all that clients write, also while the old one is away; put back when"
    " it is protected, or by --hold --abort.",
)
@click.option(
    "--forget",
    metavar="TOPIC",
    multiple=True,
    help="Only end the promotion of a topic that was deleted on both sides, or was made anew on the new"
    " primary. TOPIC may be *. Repeatable.",
)
@click.option("--until-export", is_flag=True, help="Stop after the export: decide later, with --resume.")
@click.option("--resume", is_flag=True, help="Continue the return that is under way.")
@click.option(
    "--abort",
    is_flag=True,
    help="Roll back; what has begun is copied on. What --hold began stays: --hold --abort ends that alone.",
)
@click.option("--take-over", is_flag=True, help="With --resume or --abort: its process is dead, do not wait.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--verbose", is_flag=True, help="A report with each step's notes and seconds.")
def reprotect(**given: Any) -> None:
    """Make the old primary the standby of the new one, after a switchover or a failover.

    Records that only the old primary has are exported before anything is emptied there. What becomes of them
    has no default: --disposition names it for each topic, or it is asked on a terminal.

    Exit code: 0 done, 1 failed (resume it), 3 refused or held, with the reason and what clears it.
    """
    work("drkit.cli.actions.back.reprotect").reprotect(**given)
