"""What a person decides about a return, as options. Not what the words mean: the action reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

_OPTIONS: Final = (
    click.option("--topic", "topics", metavar="TOPIC", multiple=True,
        help="A topic of the old primary. Repeatable.  [default: all that were promoted]"),
    click.option("--disposition", "dispositions", metavar="TOPIC=WHAT", multiple=True,
        help="What becomes of records that only the old primary has: discard, replay or quarantine."
        " TOPIC may be *. Repeatable."),
    click.option("--method", "methods", metavar="TOPIC=HOW", multiple=True,
        help="How the old primary's log is brought in step: delta, rebuild, trim or keep. TOPIC may be *."
        " Repeatable.  [default: delta where it is sound, else rebuild]"),
    click.option("--reason", metavar="WHY", default="", help="Why something is given up; on record."),
    click.option("--export-to", metavar="PLACE", default="",
        help="Folder or URL for the records that only the old primary has."),
    click.option("--format", "export_format", type=click.Choice(["parquet", "jsonl"]), default=None,
        help="Of the export.  [default: parquet]"),
    click.option("--same", type=click.Choice(["content", "none"]), default=None,
        help="In a replay, records with equal content on the new primary: the same, sent again; or none is."),
    click.option("--give-up-history", metavar="TOPIC", multiple=True,
        help="Give up its earliest records that only the old primary has, what the new one has removed since"
        " the failover, and, by the topic's name, what the old one has lost. TOPIC may be *."),
    click.option("--copy-limit", metavar="SIZE", default="",
        help="Empty a topic only while at most SIZE of it and of those that were emptied is on the new"
        " primary alone, as 50GiB; a larger one goes alone.  [default: no limit]"),
    click.option("--clients-cut", metavar="HOW", default="",
        help="How clients are kept off the old primary, if it has no authorizer; on record."),
    click.option("--new-primary", metavar="CLUSTER_ID", default="",
        help="The id of another cluster that takes the old primary's place."),
    click.option("--evict-readers", is_flag=True, help="Remove members from groups on the old primary."),
)  # fmt: skip


def decisions(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
