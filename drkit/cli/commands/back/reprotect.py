"""``drkit reprotect``: make the old primary the standby of the new one, continue that, or roll it back."""

from __future__ import annotations

from typing import Any

from drkit.cli import options
from drkit.cli.commands.back.options import decisions
from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@command(
    examples={
        "drkit reprotect --plan": "Show sizes, choices and commands for each topic; change nothing",
        "drkit reprotect --export-to /backup --disposition '*=replay'": (
            "Export the old primary's own records, then replay them"
        ),
        "drkit reprotect --disposition 'logs=discard' --reason 'test data'": "Discard one topic's records",
        "drkit reprotect --hold": "Suspend retention on the new primary while the old one is away",
        "drkit reprotect --resume": "Continue a return that was held or interrupted",
    }
)
@options.flow("the only one that waits for it", OptionGroup.MOVES)
@decisions
@option(
    "--to",
    metavar="CLUSTER",
    group=OptionGroup.MOVES,
    help="A third cluster instead of the old primary, which stays as it is: checks the flow to it.",
)
@flag(
    "--plan", group=OptionGroup.OTHER, help="Show sizes, choices and commands for each topic; change nothing."
)
@options.dry_run("Show what each step would do; change nothing.")
@flag(
    "--hold",
    group=OptionGroup.OTHER,
    help="Suspend retention and compaction on the new primary until it is protected again (undo: --hold"
    " --abort).",
)
@option(
    "--forget",
    metavar="TOPIC",
    multiple=True,
    group=OptionGroup.OTHER,
    help="Clear the promoted state of a topic that was deleted, or recreated on the new primary. TOPIC may"
    " be *.",
)
@flag("--until-export", group=OptionGroup.HOW, help="Stop after the export; decide later and --resume.")
@flag("--resume", group=OptionGroup.RESUME, help="Continue the return that is under way.")
@flag(
    "--abort",
    group=OptionGroup.RESUME,
    help="Roll back. Topics that were already emptied are still copied. Does not undo --hold.",
)
@options.take_over()
@options.yes()
@options.verbose()
def reprotect(**given: Any) -> None:
    """Turn the old primary into the new standby after a failover.

    Records that only the old primary has are exported before anything is deleted there. What to do with them
    has no default: name it for each topic with --disposition, or answer on a terminal.

    Exit code: 0 done, 1 failed (resume it), 3 refused or held, with the reason and what clears it.
    """
    work("drkit.cli.actions.back.reprotect").reprotect(**given)
