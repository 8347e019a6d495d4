"""``drkit translate spark-checkpoint``: a Structured Streaming query continues on the other cluster."""

from __future__ import annotations

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.errors import Usage
from drkit.translate.spark_checkpoint import CheckpointRequest, translate_checkpoint


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
