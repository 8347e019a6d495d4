"""``drkit replicate``: copy from source to target, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import ended_quietly, work


@click.command()
@click.option("--flow", "names", multiple=True, help="A flow such as 'primary->standby'.  [default: all]")
@click.option("--once", is_flag=True, help="Copy to the current end offsets, then exit.")
@click.option(
    "--standby", is_flag=True, help="Wait, ready to copy, and take over when the running replicator ends."
)
@click.option("--master", help="Spark master URL.  [default: in this process]")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--spark-properties", type=click.Path(path_type=Path, dir_okay=False),
              help="File with settings of Spark, such as its secret.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be done with each topic; change nothing.")
@click.option("--takeover-from-mm2", "takeover", is_flag=True, help="Continue where MirrorMaker 2 stopped.")
@click.option("--metrics-port", type=click.IntRange(0, 65535),
              help="Serve /metrics, /healthz and a live page.  [default: port of [metrics]]")  # fmt: skip
@click.option("--metrics-address", help="On which address.  [default: host of [metrics], 127.0.0.1]")
def replicate(**given: Any) -> None:
    """Copy from source to target, exactly once, until stopped (Ctrl-C; twice to stop at once)."""
    if given["dry_run"] or given["master"] is not None:
        work("drkit.cli.actions.replicate").replicate(**given)
        return
    spark_jvm = work("drkit.spark.jvm")
    with ended_quietly(spark_jvm.end_early):
        spark_jvm.launch_early()
        try:
            work("drkit.cli.actions.replicate").replicate(**given)
        finally:
            spark_jvm.end_early()
