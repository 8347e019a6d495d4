"""``drkit demo``: the whole story on two local clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work


@click.command()
@click.option("--keep", is_flag=True, help="Leave the clusters running, as `drkit local up` does.")
@click.option(
    "--write",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("drkit.toml"),
    show_default=True,
    help="With --keep: the configuration to write.",
)
@click.option(
    "--rate",
    type=click.IntRange(100, 5000),
    default=2000,
    show_default=True,
    help="Orders per second; fewer for a machine that has other work.",
)
@click.option(
    "--until",
    type=click.Choice(["proof", "switchover", "failover", "home"]),
    default="home",
    show_default=True,
    help="Where the story ends: both sides are compared, a planned switchover there and back, the primary"
    " dies, or it is home again. With --keep it ends with the proof.",
)
@click.option(
    "--drill",
    is_flag=True,
    help="Instead: rehearse a failover beside the shop, and keep the report. About a minute.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("drkit-drill"),
    show_default=True,
    help="With --drill: the folder for report.json and drill.html.",
)
def demo(**given: Any) -> None:
    """Two real Kafka clusters, a shop that writes, a copy that is killed and resumes, the proof, a failover.

    Takes about four minutes, needs nothing but Java, and leaves nothing behind. With --keep no cluster dies.
    """
    work("drkit.cli.actions.demo").demo(**given)
