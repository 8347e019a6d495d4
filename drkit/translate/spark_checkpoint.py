"""``drkit translate spark-checkpoint``: a Structured Streaming query continues at its next record elsewhere.

Spark keeps Kafka offsets in the query's own checkpoint folder, where group offsets have no effect. drkit
writes a copy in which every offset is that of the same record on the other cluster; state, commits and all
other files stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from drkit.config import FlowSettings, Settings
from drkit.errors import ConfigError, Refused
from drkit.offsets.spark_query import NewLog, Position, QueryLog, Use, renew
from drkit.translate.positions import look
from drkit.translate.spark_folder import SparkFolder, check_out, local_path, read_folder, write_folder

_SHOWN: Final = 20
_OUTSIDE: Final = "does not copy"
_WAITS: Final = "not copied yet"


class CheckpointRequest(NamedTuple):
    """What is to be done with a checkpoint."""

    checkpoint: str
    out: str | None = None
    """The new folder; None writes nothing."""
    reverse: bool = False
    """From the target back to the source."""
    keep: tuple[str, ...] = ()
    """Sources of the query, by name or number, that stay as they are."""
    accept_data_loss: str = ""
    """Why records that are gone for good may be missing there; empty: they may not."""
    location: str = ""
    """Where the query will find the new folder, if that is elsewhere."""


class Told(NamedTuple):
    """The answer."""

    checkpoint: str
    written: str | None
    """The new checkpoint; None when nothing was to be written."""
    query: str
    """The query's id; the new checkpoint has the same, so that sinks know its batches again."""
    batch: str
    kept_sources: list[str]
    subscribe: dict[str, str]
    """Topics that have another name there."""
    accepted: str
    notes: list[str]
    positions: list[Position]


def translate_checkpoint(settings: Settings, flow: FlowSettings, request: CheckpointRequest) -> Told:
    """Translate the checkpoint of a query that does not run, and write it to a new folder.

    :raises ConfigError: there is no checkpoint, or none with a Kafka source
    :raises Refused: not all of it can be translated exactly, or it lies in another file system
    :raises DrkitError: the other cluster does not answer
    """
    folder = read_folder(local_path(request.checkpoint))
    out = local_path(request.out) if request.out is not None else None
    if out is not None:
        check_out(folder.path, out)
    kept = _kept(folder, request.keep)
    looked = look(settings, flow, folder.log.partitions(kept), reverse=request.reverse)
    new = renew(folder.log, looked.translate, kept)
    if refused := new.refused(accept_loss=bool(request.accept_data_loss)):
        raise _inexact(folder, refused, len(new.positions))
    if out is not None:
        write_folder(folder, out, new, request.location)
    return _told(folder, new, out, request)


def _kept(folder: SparkFolder, asked: Iterable[str]) -> set[str]:
    """The sources to keep: those that were named, all of them Kafka sources."""
    sources, kept = folder.log.kafka_sources(), set(asked)
    if unknown := sorted(kept - sources):
        raise ConfigError(
            "query_source_unknown",
            where=str(folder.path),
            evidence=f"its Kafka sources: {', '.join(sorted(sources)) or 'none'}",
            names=", ".join(unknown),
        )
    if not sources - kept:
        raise ConfigError(
            "query_without_offsets",
            where=str(folder.path),
            evidence="it reads no Kafka topic, or has not begun",
        )
    return kept


def _inexact(folder: SparkFolder, refused: list[Position], total: int) -> Refused:
    lines = [
        f"source {p.source}, {p.topic}-{p.partition} at {p.offset} ({p.use}): {p.refused}" for p in refused
    ]
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    hints = {
        "when the copy has caught up (drkit status), translate again": any(
            _WAITS in p.refused for p in refused
        ),
        "copy these topics too, or, if the source reads another cluster, keep it: --keep-source N": any(
            _OUTSIDE in p.refused for p in refused
        ),
        "what is gone cannot come back; to continue without it: --accept-data-loss REASON": all(
            p.loss for p in refused
        ),
    }
    return Refused(
        "offsets_not_exact",
        where=str(folder.path),
        evidence="\n".join([*lines[:_SHOWN], *more]),
        hint="\n".join(h for h, fits in hints.items() if fits)
        or "see the reasons; to start over there, give the query another checkpointLocation",
        count=len(refused),
        total=total,
    )


def _told(folder: SparkFolder, new: NewLog, out: Path | None, request: CheckpointRequest) -> Told:
    renamed = {p.topic: p.to_topic for p in new.positions if p.to_topic != p.topic}
    lost = [p for p in new.positions if p.refused]
    return Told(
        checkpoint=str(folder.path),
        written=None if out is None else str(out),
        query=folder.query_id,
        batch=_batch_text(folder.log),
        kept_sources=sorted(request.keep),
        subscribe=renamed,
        accepted=request.accept_data_loss if lost else "",
        notes=_notes(new),
        positions=[p for p in new.positions if p.use is not Use.PAST],
    )


def _batch_text(log: QueryLog) -> str:
    if log.newest is None:
        return "none was planned yet"
    if log.open:
        return f"{log.newest} was planned and not committed: it runs again, with the same records"
    return f"{log.newest} is committed: the next one begins where it ended"


def _notes(new: NewLog) -> list[str]:
    notes = []
    if new.left_out:
        notes.append(f"left out as they have no offsets there: batches up to {max(new.left_out)}")
    if new.first_left_out:
        sources = ", ".join(new.first_left_out)
        notes.append(f"first offsets left out, needed no more: source {sources}")
    return notes
