"""``drkit translate``: a group's exact position on the other cluster, also of a Spark query."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option, text
from drkit.errors import Usage

_reverse = flag(
    "--reverse", group=OptionGroup.SELECTION, help="Translate from the target back to the source."
)


@group(
    invoke_without_command=True,
    examples={
        "drkit translate --group billing": "All partitions of a group",
        "drkit translate --topic orders --partition 0 --offset 4711": "One offset",
        "drkit translate --group billing --reverse": "From the target back to the source",
        "drkit translate spark-checkpoint /checkpoints/q1 --out /checkpoints/q1-standby": (
            "The checkpoint of a Spark query"
        ),
    },
)
@options.flow()
@option("--group", group=OptionGroup.SELECTION, help="A consumer group: all its partitions.")
@option("--topic", group=OptionGroup.SELECTION, help="A topic, by its name on the cluster of --offset.")
@option(
    "--partition",
    type=click.IntRange(0),
    metavar="NUMBER",
    group=OptionGroup.SELECTION,
    help="Its partition.",
)
@option(
    "--offset", type=click.IntRange(0), metavar="NUMBER", group=OptionGroup.SELECTION, help="An offset in it."
)
@_reverse
@click.pass_context
def translate(context: click.Context, /, **given: Any) -> Any:
    """Print a group's equivalent offset on the other cluster.

    The record at this offset is the next one that the group would have read here. Give --group, or --topic,
    --partition and --offset. The source may be down. For the checkpoints of Spark applications use drkit
    translate spark-checkpoint.

    Exit code: 0 all positions are exact, 3 at least one is unknown.
    """
    if context.invoked_subcommand is None:
        return work("drkit.cli.actions.translate").translate(**given)
    if any(value not in {None, False} for value in given.values()):
        raise Usage("options_misplaced", where="drkit translate")
    return 0


@translate.command(
    "spark-checkpoint",
    examples={
        "drkit translate spark-checkpoint /checkpoints/q1 --dry-run": "Show what would be written",
        "drkit translate spark-checkpoint /checkpoints/q1 --out /checkpoints/q1-standby": (
            "Write a checkpoint for the other cluster"
        ),
        "drkit translate spark-checkpoint s3://b/q1 --out q1 --location s3://b/q2": (
            "Write it locally, to be copied to S3"
        ),
    },
)
@click.argument("checkpoint", metavar="DIR")
@option(
    "--out",
    metavar="DIR2",
    group=OptionGroup.OUTPUT,
    help="The new checkpoint: a folder that is empty or does not exist.",
)
@option(
    "--location",
    metavar="URL",
    default="",
    group=OptionGroup.OUTPUT,
    default_is="DIR2",
    help="Where the query will find the new checkpoint.",
)
@options.flow()
@_reverse
@options.dry_run("Show what would be written; change nothing.")
@option(
    "--keep-source",
    "keep",
    multiple=True,
    metavar="N",
    group=OptionGroup.HOW,
    help="Do not translate this Kafka source of the query, by number or name: it reads another cluster.",
)
@text(
    "--accept-data-loss",
    "reason",
    metavar="REASON",
    group=OptionGroup.ACCEPT,
    help="Continue after records that are lost; the reason is recorded.",
)
def spark_checkpoint(**given: Any) -> None:
    """Rewrite a Spark query's checkpoint for the other cluster.

    DIR is the query's checkpointLocation; it is only read. Stop the query first, then start it with DIR2 and
    the other cluster's bootstrap servers. A batch that was planned but not committed runs again with the same
    records. If an offset has no exact position there, the command is refused and writes nothing.

    Exit code: 0 all is exact, 3 refused.
    """
    work("drkit.cli.actions.translate").spark_checkpoint(**given)
