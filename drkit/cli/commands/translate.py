"""``drkit translate``: a group's exact position on the other cluster."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.commands.spark_checkpoint import spark_checkpoint
from drkit.cli.loading import work
from drkit.errors import Usage


@click.group(invoke_without_command=True)
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")
@click.option("--group", help="A consumer group: all its partitions.")
@click.option("--topic", help="A topic, as the cluster calls it from which the offset comes.")
@click.option("--partition", type=click.IntRange(0), help="Its partition.")
@click.option("--offset", type=click.IntRange(0), help="An offset in it.")
@click.option("--reverse", is_flag=True, help="From the target back to the source.")
@click.pass_context
def translate(context: click.Context, /, **given: Any) -> Any:
    """Say where a group reads on: its next record there is the one it would have got here.

    Answers for --group, or for --topic, --partition and --offset. The source may be gone. Spark applications
    keep their offsets elsewhere: drkit translate spark-checkpoint.

    Exit code: 0 all positions are exact, 3 one is unknown.
    """
    if context.invoked_subcommand is None:
        return work("drkit.cli.actions.translate").translate(**given)
    if any(value not in {None, False} for value in given.values()):
        raise Usage("options_misplaced", where="drkit translate")
    return 0


translate.add_command(spark_checkpoint)
