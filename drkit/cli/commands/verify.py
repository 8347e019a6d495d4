"""``drkit verify``: source = target, record by record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work


@click.command()
@click.option("--flow", help="The flow to verify, as 'primary->standby'.  [default: all]")
@click.option("--topic", "topics", multiple=True, help="A source topic; may be repeated.  [default: all]")
@click.option("--from-checked", "only_new", is_flag=True, help="Only what came since the last verification.")
@click.option(
    "--max-differences",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many differences to show; all are counted.",
)
@click.option("--master", help="Spark master URL.  [default: this machine]")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--spark-properties", type=click.Path(path_type=Path, dir_okay=False),
              help="File with settings of Spark, such as its secret.")  # fmt: skip
def verify(**given: Any) -> Any:
    """Compare source and target, record by record.

    Compares key, value, headers and timestamp of all records copied so far; a replicator may run meanwhile.
    Records that are not copied yet are reported, and are no difference.

    A key of a compacted topic that was deleted on the source and lives on the target is a difference.

    Exit code: 0 equal, 1 different, 3 cannot be decided.
    """
    return work("drkit.cli.actions.verify").verify(**given)
