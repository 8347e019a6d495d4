"""``drkit replicate``: copy from source to target, exactly once."""

from __future__ import annotations

from typing import Any

from drkit.cli import options
from drkit.cli.help import command
from drkit.cli.loading import ended_quietly, work
from drkit.cli.options import OptionGroup, flag


@command(
    examples={
        "drkit replicate": "Copy all flows until stopped",
        "drkit replicate --dry-run": "Show what would be done with each topic",
        "drkit replicate --flow 'primary->standby' --metrics-port 9404": "One flow, with a live page",
        "drkit replicate --standby": "Wait, and take over when the running replicator ends",
        "drkit replicate --takeover-from-mm2": "Continue where MirrorMaker 2 stopped",
    }
)
@options.flows()
@flag("--once", group=OptionGroup.HOW, help="Copy to the current end offsets, then exit.")
@flag(
    "--standby",
    group=OptionGroup.HOW,
    help="Wait, ready to copy, and take over when the running replicator ends.",
)
@options.spark("in this process")
@options.dry_run("Show what would be done with each topic; change nothing.")
@flag("--takeover-from-mm2", "takeover", group=OptionGroup.HOW, help="Continue where MirrorMaker 2 stopped.")
@options.metrics("a live page", "port of [metrics]")
def replicate(**given: Any) -> None:
    """Copy from source to target, exactly once.

    Runs until stopped. Press Ctrl-C to stop cleanly, twice to stop immediately.
    """
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
