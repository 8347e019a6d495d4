"""``drkit failback``: move clients back to the original primary."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli import options
from drkit.cli.commands.back.options import decisions
from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@command(
    examples={
        "drkit failback --dry-run": "Show what the next stage would do; change nothing",
        "drkit failback --export-to /backup --disposition '*=discard'": (
            "Move back; export, then discard records that only the original primary has"
        ),
        "drkit failback --flow 'primary->standby' --wait-seconds 7200": "One flow; wait up to two hours",
    }
)
@options.flow("the only one, or the only one whose primary was lost", OptionGroup.MOVES)
@decisions
@option(
    "--wait-seconds",
    type=click.FloatRange(min=0.0),
    metavar="SECONDS",
    default=3600.0,
    group=OptionGroup.HOW,
    help="How long to wait until the original primary is in step. Run the command again after that.",
)
@options.acls_only_home("What to do with ACLs on the original primary that allow more than here.")
@flag(
    "--evict-members",
    group=OptionGroup.ACCEPT,
    help="Remove members from groups on the original primary before the switchover.",
)
@options.dry_run("Show what the next stage would do; change nothing.")
@options.take_over()
@options.yes()
@options.verbose()
def failback(**given: Any) -> None:
    """Move clients back to the original primary.

    Stages: return the original primary as standby, wait until it is in step, switch over, and reverse the
    flow. Run the command again to continue at the next stage. The stages one by one: drkit reprotect, drkit
    failover --planned of the reverse flow, drkit reprotect of the reverse flow.

    Exit code: 0 done, 1 failed or not in step yet (run it again), 3 refused or held, with the reason.
    """
    work("drkit.cli.actions.back.failback").failback(**given)
