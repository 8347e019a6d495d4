"""``drkit demo``: a guided demo on two local clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@command(
    examples={
        "drkit demo": "Replicate, fail over and fail back; about four minutes",
        "drkit demo --until proof": "Stop after both clusters are compared",
        "drkit demo --keep": "Leave the clusters running to try commands",
        "drkit demo --drill": "Rehearse a failover; about a minute",
    }
)
@flag("--keep", group=OptionGroup.HOW, help="Leave the clusters running, as drkit local up does.")
@option(
    "--write",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("drkit.toml"),
    group=OptionGroup.OUTPUT,
    help="With --keep: configuration file to write.",
)
@option(
    "--rate",
    type=click.IntRange(100, 5000),
    metavar="COUNT",
    default=2000,
    group=OptionGroup.HOW,
    help="Orders per second. Lower it on a busy machine.",
)
@option(
    "--until",
    type=click.Choice(["proof", "switchover", "failover", "home"]),
    default="home",
    group=OptionGroup.HOW,
    help="Last part: proof compares both clusters, switchover switches there and back, failover kills the"
    " primary, home fails back. --keep ends with proof.",
)
@flag(
    "--drill",
    group=OptionGroup.HOW,
    help="Rehearse a failover beside the running shop instead, and keep the report.",
)
@option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("drkit-drill"),
    group=OptionGroup.OUTPUT,
    help="With --drill: folder for report.json and drill.html.",
)
def demo(**given: Any) -> None:
    """Run a guided demo on two local clusters.

    It starts two real Kafka clusters and a shop that writes orders, kills and resumes the copy, proves that
    nothing was lost, and fails over and back. Takes about four minutes, needs only Java, and leaves nothing
    behind. With --keep no cluster is killed.
    """
    work("drkit.cli.actions.demo").demo(**given)
