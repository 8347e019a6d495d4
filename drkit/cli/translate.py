"""``drkit translate``: a group's exact position on the other cluster."""

from __future__ import annotations

import click

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.config import FlowSettings, Settings
from drkit.errors import ConfigError, Refused
from drkit.replicate.translate import UNAVAILABLE, Question
from drkit.replicate.translate import translate as ask


@click.command()
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")
@click.option("--group", help="A consumer group: all its partitions.")
@click.option("--topic", help="A topic, as the cluster calls it from which the offset comes.")
@click.option("--partition", type=click.IntRange(0), help="Its partition.")
@click.option("--offset", type=click.IntRange(0), help="An offset in it.")
@click.option("--reverse", is_flag=True, help="From the target back to the source.")
def translate(
    flow: str | None,
    group: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    *,
    reverse: bool,
) -> int:
    """Say where a group reads on: its next record there is the one it would have got here.

    Answers for --group, or for --topic, --partition and --offset. The source may be gone.

    Exit code: 0 all is exact, 3 for some partition nobody knows.
    """
    one = (topic, partition, offset)
    if (group is None) == (None in one) or (group is not None and one != (None, None, None)):
        raise ConfigError(
            "name either a group or one offset",
            where="drkit translate",
            hint="drkit translate --group G, or --topic T --partition P --offset N",
        )
    settings = configuration().settings
    lines = ask(settings, _flow(settings, flow), Question(group, topic, partition, offset, reverse=reverse))
    emit(lines)
    return Refused.exit_code if any(x.answer == UNAVAILABLE for x in lines) else 0


def _flow(settings: Settings, name: str | None) -> FlowSettings:
    if name is not None:
        return settings.flow(name)
    if len(settings.flows) != 1:
        raise ConfigError(
            f"there are {len(settings.flows)} flows: which one?",
            where="--flow",
            hint=", ".join(f"--flow '{f.name}'" for f in settings.flows) or "add a [[flows]] table",
        )
    return settings.flows[0]
