"""``drkit failover``: move topics and their groups to the standby, continue one, or roll it back."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.command()
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")
@click.option("--group", "groups", multiple=True, help="A group, its topics, all who read these. Repeatable.")
@click.option("--topic", "topics", multiple=True, help="A topic, and all who read it. Repeatable.")
@click.option("--all", "whole", is_flag=True, help="All that the flow copies and that has not moved yet.")
@click.option("--planned", is_flag=True, help="A switchover: nothing may be lost, the old primary is fenced.")
@click.option("--dry-run", is_flag=True, help="Show what each step would do; change nothing.")
@click.option("--quiet", is_flag=True, help="With --dry-run: the verdict alone, in one line.")
@click.option("--resume", is_flag=True, help="Continue the failover that is under way.")
@click.option("--abort", is_flag=True, help="Roll back; only before the step OPEN.")
@click.option("--take-over", is_flag=True, help="With --resume or --abort: its process is dead, do not wait.")
@click.option(
    "--target-lost",
    metavar="HOW",
    default="",
    help="With --abort: how you know that the target is lost and takes no writes; on record.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--accept-data-loss", metavar="REASON", default="", help="Lose what is not copied; on record.")
@click.option(
    "--despite-signs-of-life",
    metavar="REASON",
    default="",
    help="Give up a primary that is silent here and alive elsewhere; on record.",
)
@click.option(
    "--without-quorum",
    metavar="REASON",
    default="",
    help="Decide although too few observers say that the primary is gone; on record.",
)
@click.option(
    "--clients-cut",
    metavar="HOW",
    default="",
    help="With --planned: how clients are kept off the old primary once it is the standby; on record.",
)
@click.option("--evict-members", is_flag=True, help="Remove members from groups on the standby.")
@click.option("--keep-positions", is_flag=True, help="Leave groups that worked on the standby alone.")
@click.option(
    "--acls-only-home",
    type=click.Choice(["remove", "keep"]),
    default=None,
    help="With --planned, back to a former primary: ACLs that give clients there what they may not do here.",
)
@click.option("--leave-behind", metavar="TOPIC", multiple=True, help="Has no copy, and remains. Repeatable.")
@click.option("--verbose", is_flag=True, help="A report with each step's notes and seconds.")
@click.option("--repoint-others", is_flag=True, help="Send clients to the standby that do not move, too.")
def failover(**given: Any) -> None:
    """Move topics and their consumer groups to the standby: exactly where they were, or refused.

    Name what moves by --group, --topic or --all; --resume continues a failover, --abort rolls it back.
    Of a planned one --abort needs the old primary alone, while the standby does not answer.

    At night: docs/how-to/night.md says in ten lines how to decide.

    Exit code: 0 done, 1 failed (resume it), 3 refused or held, with the reason and what clears it.
    """
    work("drkit.cli.actions.failover").failover(**given)
