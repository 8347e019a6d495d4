"""``drkit translate spark-checkpoint``: a Structured Streaming query continues at its next record elsewhere.

Spark keeps Kafka offsets in the query's own checkpoint folder, where group offsets have no effect. drkit
writes a copy in which every offset is that of the same record on the other cluster; state, commits and all
other files stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
import json
import os
from pathlib import Path
import re
import shutil
import tempfile
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from drkit.config import FlowSettings, Settings
from drkit.errors import ConfigError, Failed, Refused
from drkit.offsets.spark_query import (
    FirstOffsets,
    LoggedBatch,
    NewLog,
    Position,
    QueryLog,
    UnreadableLog,
    Use,
    moved,
    names_its_place,
    places,
    renew,
)
from drkit.translate.positions import look

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
_METADATA: Final = "metadata"
_FIRST: Final = "0"
_SCHEME: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9+.-]+):")
_SHOWN_FILES: Final = 5

Listing = dict[str, tuple[int, int]]
"""Size in bytes and time of the last change, in nanoseconds, of all files below a folder."""


class SparkFolder(NamedTuple):
    """A checkpoint as it was read."""

    path: Path
    query_id: str
    """The query's id, with which sinks recognise it, or empty before its first run."""
    log: QueryLog
    files: Listing


def local_path(where: str) -> Path:
    """Return the folder of a path or a ``file:`` URL. Raises Refused if it lies in another file system."""
    scheme = _SCHEME.match(where)
    if scheme is None:
        return Path(where).resolve()
    if scheme["name"].lower() == "file":
        return Path(unquote(urlsplit(where).path)).resolve()
    raise Refused(
        "checkpoint_not_local", where=where, evidence=f"it lies in another file system, {scheme['name']}"
    )


def read_folder(path: Path) -> SparkFolder:
    """Read the logs of a query that does not run.

    :raises ConfigError: there is no checkpoint
    :raises Refused: a log is not what Spark writes
    """
    if not path.is_dir():
        raise ConfigError("checkpoint_folder_missing", where=str(path))
    files = _listing(path)
    if not (path / OFFSETS).is_dir() and not (path / _METADATA).is_file():
        hint = _inner(path) or "name the checkpointLocation of one query"
        evidence = f"it has no {OFFSETS} and no {_METADATA}"
        raise ConfigError("no_checkpoint", where=str(path), evidence=evidence, hint=hint)
    offsets = {n: _batch(path / OFFSETS / str(n)) for n in _numbers(path / OFFSETS)}
    committed = max(_numbers(path / COMMITS), default=None)
    log = QueryLog(offsets, committed, dict(_first_offsets(path / SOURCES)))
    if committed is not None and (log.newest is None or committed > log.newest):
        evidence = f"batch {committed} is committed, the newest that was planned is {log.newest}"
        raise Refused("checkpoint_incomplete", where=str(path), evidence=evidence)
    return SparkFolder(path, _query_id(path / _METADATA), log, files)


def _inner(path: Path) -> str:
    queries = sorted(p.parent.name for p in path.glob(f"*/{OFFSETS}"))
    return f"one checkpoint at a time: {', '.join(queries[:_SHOWN_FILES])}" if queries else ""


def _numbers(folder: Path) -> list[int]:
    return [int(p.name) for p in folder.glob("*") if p.name.isdigit() and p.is_file()]


def _batch(file: Path) -> LoggedBatch:
    try:
        return LoggedBatch.parse(file.read_bytes())
    except UnreadableLog as error:
        raise Refused("offset_log_malformed", where=str(file), evidence=str(error)) from error


def _first_offsets(folder: Path) -> Iterator[tuple[str, FirstOffsets]]:
    for file in sorted(folder.glob(f"*/{_FIRST}")):
        if file.is_file() and (first := FirstOffsets.parse(file.read_bytes())) is not None:
            yield file.parent.name, first


def _query_id(file: Path) -> str:
    try:
        return str(json.loads(file.read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _listing(path: Path) -> Listing:
    files: Listing = {}
    for folder, _, names in os.walk(path, followlinks=True):
        for name in names:
            file = Path(folder, name)
            with suppress(FileNotFoundError):  # a query that runs removes files meanwhile
                stat = file.stat()
                files[file.relative_to(path).as_posix()] = stat.st_size, stat.st_mtime_ns
    return files


def check_out(path: Path, out: Path) -> None:
    """Check that a copy of the folder may be written there.

    :raises Refused: the folder is not empty, or one folder would lie within the other
    """
    if out == path or out in path.parents or path in out.parents:
        raise Refused("checkpoint_nested", where=str(out), evidence=f"the checkpoint is {path}")
    old = sorted(p.name for p in out.iterdir()) if out.is_dir() else [out.name] if out.exists() else []
    if old:
        raise Refused("checkpoint_folder_in_use", where=str(out), evidence=", ".join(old[:_SHOWN_FILES]))


def write_folder(folder: SparkFolder, out: Path, new: NewLog, location: str = "") -> None:
    """Write a copy of the checkpoint with other logs: all of it, or nothing.

    :param location: path or URL under which the query will find the copy, or empty if it is `out`
    :raises Refused: the query ran meanwhile, or the location of the copy is needed and unknown
    :raises Failed: the disk rejected the copy
    """
    rewritten = {f"{OFFSETS}/{number}": data for number, data in new.offsets.items()}
    rewritten |= {f"{SOURCES}/{source}/{_FIRST}": data for source, data in new.first.items()}
    rewritten |= dict(_led_into_the_copy(folder, location, f"file:{out}"))
    dropped = {f"{log}/{number}" for number in new.left_out for log in (OFFSETS, COMMITS)}
    dropped |= {f"{SOURCES}/{source}/{_FIRST}" for source in new.first_left_out}
    scratch: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        _copy(folder, scratch, rewritten, dropped | _sidecars({*rewritten, *dropped}))
        _refuse_running(folder)
        scratch.rename(out)
    except OSError as error:
        raise Failed(
            "checkpoint_not_written", where=str(out), evidence=f"{error.strerror}: {error.filename}"
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _led_into_the_copy(folder: SparkFolder, location: str, out: str) -> Iterator[tuple[str, bytes]]:
    """Rewrite the files that name their checkpoint's location to name the copy's; yield them by path."""
    for name in filter(names_its_place, folder.files):
        data = (folder.path / name).read_bytes()
        for place in places(data):
            scheme = _SCHEME.match(place)
            if not location and scheme is not None and scheme["name"].lower() != "file":
                raise Refused("checkpoint_location_unknown", where=name, evidence=f"it names {place}")
            data = moved(data, location.rstrip("/") or out)
            yield name, data


def _copy(folder: SparkFolder, scratch: Path, rewritten: Mapping[str, bytes], without: Iterable[str]) -> None:
    omitted = set(without)
    for root, folders, _ in os.walk(folder.path, followlinks=True):
        for name in folders:
            inner = Path(root, name).relative_to(folder.path)
            (scratch / inner).mkdir()
    for name in folder.files:
        if name in rewritten:
            (scratch / name).write_bytes(rewritten[name])
            shutil.copymode(folder.path / name, scratch / name)
        elif name not in omitted and not _is_scratch_of_spark(name):
            shutil.copy2(folder.path / name, scratch / name)
    for root, folders, _ in os.walk(folder.path, followlinks=True):
        for name in ("", *folders):
            old = Path(root, name)
            shutil.copystat(old, scratch / old.relative_to(folder.path))


def _sidecars(names: Iterable[str]) -> set[str]:
    """Return the checksum files of Hadoop and Spark for these: both accept a file without one."""
    sidecars = set()
    for path in map(Path, names):
        for name in (f".{path.name}.crc", f"{path.name}.crc", f".{path.name}.crc.crc"):
            sidecars.add(path.with_name(name).as_posix())
    return sidecars


def _is_scratch_of_spark(name: str) -> bool:
    """Return whether a killed query left this file instead of a log file."""
    top, _, rest = name.partition("/")
    last = rest.rpartition("/")[2]
    return top in {OFFSETS, COMMITS, SOURCES} and last.startswith(".") and ".tmp" in last


def _refuse_running(folder: SparkFolder) -> None:
    now = _listing(folder.path)
    if now != folder.files:
        changed = sorted(n for n in now.keys() | folder.files.keys() if now.get(n) != folder.files.get(n))
        raise Refused("query_running", where=str(folder.path), evidence=", ".join(changed[:_SHOWN_FILES]))


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
        evidence = f"its Kafka sources: {', '.join(sorted(sources)) or 'none'}"
        names = ", ".join(unknown)
        raise ConfigError("query_source_unknown", where=str(folder.path), evidence=evidence, names=names)
    if not sources - kept:
        evidence = "it reads no Kafka topic, or has not begun"
        raise ConfigError("query_without_offsets", where=str(folder.path), evidence=evidence)
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
