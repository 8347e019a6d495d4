"""``drkit translate``: a group's exact position on the other cluster."""

from __future__ import annotations

import click

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.spark_checkpoint import spark_checkpoint
from drkit.errors import ConfigError, Refused
from drkit.replicate.translate import UNAVAILABLE, Question
from drkit.replicate.translate import translate as ask


@click.group(invoke_without_command=True)
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")
@click.option("--group", help="A consumer group: all its partitions.")
@click.option("--topic", help="A topic, as the cluster calls it from which the offset comes.")
@click.option("--partition", type=click.IntRange(0), help="Its partition.")
@click.option("--offset", type=click.IntRange(0), help="An offset in it.")
@click.option("--reverse", is_flag=True, help="From the target back to the source.")
@click.pass_context
def translate(
    context: click.Context,
    flow: str | None,
    group: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    *,
    reverse: bool,
) -> int:
    """Say where a group reads on: its next record there is the one it would have got here.

    Answers for --group, or for --topic, --partition and --offset. The source may be gone. Spark applications
    keep their offsets elsewhere: drkit translate spark-checkpoint.

    Exit code: 0 all is exact, 3 for some partition nobody knows.
    """
    one = (topic, partition, offset)
    if context.invoked_subcommand is not None:
        if reverse or any(x is not None for x in (flow, group, *one)):
            raise ConfigError(
                "these options are not for this command",
                where="drkit translate",
                hint=f"name its own options behind it: drkit translate {context.invoked_subcommand} --help",
            )
        return 0
    if (group is None) == (None in one) or (group is not None and one != (None, None, None)):
        raise ConfigError(
            "name either a group or one offset",
            where="drkit translate",
            hint="drkit translate --group G, or --topic T --partition P --offset N",
        )
    settings = configuration().settings
    lines = ask(settings, settings.one_flow(flow), Question(group, topic, partition, offset, reverse=reverse))
    emit(lines)
    return Refused.exit_code if any(x.answer == UNAVAILABLE for x in lines) else 0


translate.add_command(spark_checkpoint)
