"""``drkit replay``: the old primary's tail, from an export, into the new primary."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.command()
@click.option("--from", "manifest", metavar="MANIFEST", required=True, help="manifest.json of the export.")
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the export's]")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    help="A topic of the old primary; may be repeated.  [default: all of the export]",
)
@click.option("--to-quarantine", is_flag=True, help="Into TOPIC.divergent.TERM, beside the topics.")
@click.option(
    "--same",
    type=click.Choice(["content", "none"]),
    help="Records with equal content on the new primary: the same, sent again; or none is the same.",
)
@click.option("--sha256", metavar="HEX", help="What the manifest's SHA-256 must be.")
@click.option(
    "--give-up",
    metavar="WHY",
    default="",
    help="Do not replay what an aborted return was to replay; on record.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def replay(**given: Any) -> int:
    """Append the records that only the old primary had to the new one.

    Needs the export and the new primary alone. What clients sent again since the failover is there already,
    by content, and is not sent; times and order stay. Run again, it continues, and repeats nothing.

    Exit code: 0 done, 1 failed or stopped (run it again), 3 refused, with the reason and what clears it.
    """
    code: int = work("drkit.cli.actions.replay").replay(**given)
    return code
