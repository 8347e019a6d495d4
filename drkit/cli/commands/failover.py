"""``drkit failover``: move topics and their groups to the standby, continue one, or roll it back."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option, text
from drkit.endpoint import LARGEST_TERM


@command(
    examples={
        "drkit failover --all --dry-run": "Preview a failover of everything; change nothing",
        "drkit failover --all": "The primary is lost: fail over everything",
        "drkit failover --all --planned": "Switch over while both clusters work; nothing is lost",
        "drkit failover --group billing --planned": "Switch over one group, with all readers of its topics",
        "drkit failover --resume": "Continue a failover that was held or interrupted",
    }
)
@options.flow(group=OptionGroup.MOVES)
@option(
    "--group",
    "groups",
    multiple=True,
    group=OptionGroup.MOVES,
    help="The group, the topics it reads, and every other group that reads them.",
)
@options.topics("The topic and every group that reads it.", "", OptionGroup.MOVES)
@flag("--all", "whole", group=OptionGroup.MOVES, help="All topics of the flow that have not moved yet.")
@flag("--planned", group=OptionGroup.HOW, help="Switch over: lose nothing, fence the old primary.")
@options.dry_run("Show what each step would do; change nothing.")
@flag("--quiet", group=OptionGroup.OUTPUT, help="With --dry-run: print the verdict only, in one line.")
@flag("--resume", group=OptionGroup.RESUME, help="Continue the failover that is under way.")
@flag("--abort", group=OptionGroup.RESUME, help="Roll back. Possible until step OPEN begins.")
@options.take_over()
@text(
    "--target-lost",
    metavar="HOW",
    group=OptionGroup.RESUME,
    help="With --abort: how you know that the target is lost and takes no writes. HOW is recorded.",
)
@option(
    "--term",
    type=click.IntRange(0, LARGEST_TERM // 2),
    default=0,
    metavar="N",
    group=OptionGroup.RESUME,
    help="Give the failover at least this term: one more than the endpoint knows that refused it.",
)
@options.yes()
@options.accept("--accept-data-loss", "Lose records that are not copied; the reason is recorded.")
@options.accept(
    "--despite-signs-of-life",
    "Proceed although an observer sees the primary, or another flow has promoted the topics. Recorded.",
)
@options.accept(
    "--without-quorum",
    "Proceed although too few observers report the primary as lost; the reason is recorded.",
)
@options.accept(
    "--clients-cut",
    "With --planned, if no ACL can fence the old primary: how clients are kept off it. HOW is recorded.",
    "HOW",
)
@flag("--evict-members", group=OptionGroup.ACCEPT, help="Remove members from groups on the standby.")
@flag(
    "--keep-positions",
    group=OptionGroup.ACCEPT,
    help="Do not touch groups that already committed offsets on the standby.",
)
@options.acls_only_home(
    "With --planned, back to a former primary: what to do with ACLs that allow more there than here."
)
@option(
    "--leave-behind",
    metavar="TOPIC",
    multiple=True,
    group=OptionGroup.ACCEPT,
    help="Leave this topic or group on the primary.",
)
@option(
    "--give-up-history",
    metavar="TOPIC",
    multiple=True,
    group=OptionGroup.ACCEPT,
    help="Lose the earliest records of this topic, which the standby has removed; * for every topic.",
)
@options.verbose()
@flag(
    "--repoint-others",
    group=OptionGroup.ACCEPT,
    help="Also repoint clients whose groups or topics do not move.",
)
def failover(**given: Any) -> None:
    """Move topics and their consumer groups to the standby.

    Select what to move with --group, --topic or --all. Each group continues at its exact position, or the
    failover is refused. --resume continues a failover and --abort rolls it back. Rolling back a planned
    failover works without the standby.

    How to decide at night: drkit explain night

    Exit code: 0 done, 1 failed (resume it), 3 refused or held, with the reason and what clears it.
    """
    work("drkit.cli.actions.failover").failover(**given)
