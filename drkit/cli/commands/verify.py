"""``drkit verify``: compare source and target, record by record."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@command(
    examples={
        "drkit verify": "Compare all records of all flows",
        "drkit verify --topic orders --topic payments": "Compare two topics",
        "drkit verify --from-checked": "Compare only records since the last verification",
    }
)
@options.flow("all")
@options.topics("A source topic.")
@flag(
    "--from-checked",
    "only_new",
    group=OptionGroup.SELECTION,
    help="Compare only records since the last verification.",
)
@option(
    "--max-differences",
    type=click.IntRange(0),
    metavar="COUNT",
    default=10,
    group=OptionGroup.OUTPUT,
    help="Number of differences to show; all are counted.",
)
@options.spark()
def verify(**given: Any) -> Any:
    """Compare source and target, record by record.

    Compares key, value, headers and timestamp of all records copied so far. A replicator may run meanwhile.
    Records that are not copied yet are reported, but are not a difference.

    A key of a compacted topic that was deleted on the source but exists on the target is a difference.

    Exit code: 0 equal, 1 different, 3 unknown.
    """
    return work("drkit.cli.actions.verify").verify(**given)
