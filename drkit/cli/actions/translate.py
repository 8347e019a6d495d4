"""``drkit translate``: a group's exact position on the other cluster."""

from __future__ import annotations

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.errors import Refused, Usage
from drkit.translate.positions import UNAVAILABLE, PositionQuestion
from drkit.translate.positions import translate as ask


def translate(
    flow: str | None,
    group: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    *,
    reverse: bool,
) -> int:
    """Run ``drkit translate``."""
    one = (topic, partition, offset)
    if (group is None) == (None in one) or (group is not None and one != (None, None, None)):
        raise Usage("group_or_offset", where="drkit translate")
    settings = configuration().settings
    lines = ask(
        settings, settings.one_flow(flow), PositionQuestion(group, topic, partition, offset, reverse=reverse)
    )
    emit(lines)
    return Refused.exit_code if any(x.answer == UNAVAILABLE for x in lines) else 0
