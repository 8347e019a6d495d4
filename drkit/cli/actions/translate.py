"""``drkit translate``: a group's exact position on the other cluster."""

from __future__ import annotations

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.errors import Refused, Usage
from drkit.translate.positions import UNAVAILABLE, PositionQuestion
from drkit.translate.positions import translate as ask
from drkit.translate.spark_checkpoint import CheckpointRequest, translate_checkpoint


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


def spark_checkpoint(
    checkpoint: str,
    out: str | None,
    location: str,
    flow: str | None,
    keep: tuple[str, ...],
    reason: str,
    *,
    reverse: bool,
    dry_run: bool,
) -> None:
    """Run ``drkit translate spark-checkpoint``."""
    if out is None and not dry_run:
        raise Usage("checkpoint_destination_missing", where="--out")
    settings = configuration().settings
    request = CheckpointRequest(checkpoint, None if dry_run else out, reverse, keep, reason, location)
    emit(translate_checkpoint(settings, settings.one_flow(flow), request))
