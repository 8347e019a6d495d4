"""``drkit replay``: append records from an export of the old primary to the new primary."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@command(
    examples={
        "drkit replay --from /backup/export-1/manifest.json --dry-run": "Show what would be appended",
        "drkit replay --from /backup/export-1/manifest.json --same content": (
            "Append; skip records that clients have already re-sent"
        ),
        "drkit replay --from /backup/export-1/manifest.json --to-quarantine": (
            "Append to TOPIC.divergent.TERM instead of the topics"
        ),
    }
)
@option(
    "--from",
    "manifest",
    metavar="MANIFEST",
    required=True,
    group=OptionGroup.MOVES,
    help="manifest.json of the export.",
)
@options.flow("the export's", OptionGroup.MOVES)
@options.topics("A topic of the old primary.", "all in the export", OptionGroup.MOVES)
@flag("--to-quarantine", group=OptionGroup.HOW, help="Append to TOPIC.divergent.TERM instead of the topic.")
@option(
    "--same",
    type=click.Choice(["content", "none"]),
    group=OptionGroup.HOW,
    help="Skip records whose content is already on the new primary, or skip none.",
)
@option("--sha256", metavar="HEX", group=OptionGroup.HOW, help="Expected SHA-256 of the manifest.")
@options.accept("--give-up", "Cancel the replay that an aborted return left pending; the reason is recorded.")
@options.dry_run("Show what would be appended; change nothing.")
@options.yes()
def replay(**given: Any) -> Any:
    """Append records from an export to the new primary.

    Needs only the export and the new primary. Records that clients have already re-sent (same content) are
    skipped; order and timestamps are preserved. Run the command again to continue; nothing is repeated.

    Exit code: 0 done, 1 failed or stopped (run it again), 3 refused, with the reason and what clears it.
    """
    return work("drkit.cli.actions.replay").replay(**given)
