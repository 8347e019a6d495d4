"""What runs in Spark's executors: one task writes some ranges, another one reads some parts back.

The input and the answer of a task are JSON. An error of drkit's is an answer, too: another attempt would
end in the same way, and its evidence would be lost on the way through Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
import json
import resource
from typing import Any, Final, NamedTuple
from uuid import UUID

from drkit import errors
from drkit.config import ClusterSettings
from drkit.errors import DrkitError, Failed, error_text, restored
from drkit.export.check import reading
from drkit.export.manifest import ExportFormat, ExportPart, TailRange
from drkit.export.parts import read_part, write_parts
from drkit.export.places import storage_at
from drkit.export.reading import TailReader
from drkit.export.request import CopiedBack

_ERROR: Final = "error"
_readers: dict[str, TailReader] = {}
"""By connection settings: Spark keeps its Python workers, so connections stay open, too."""


class WrittenRange(NamedTuple):
    """What a task wrote of a range."""

    wanted: TailRange
    parts: tuple[ExportPart, ...]


class Place(NamedTuple):
    """Where the files are, and how they are written."""

    folder: str
    """Of the manifest."""
    format: ExportFormat


def write_share(place: Place, share: str, source: ClusterSettings, skip: CopiedBack, part_bytes: int) -> str:
    """Export some ranges.

    :param share: of :func:`ranges_text`
    :returns: what :func:`written` reads
    """

    def work() -> list[Any]:
        storage, reader = storage_at(place.folder), _reader(source)
        out = []
        for wanted in _ranges(json.loads(share)):
            with writing(place.folder):
                items = reader.read(wanted, skip.left_out(wanted))
                parts = write_parts(storage, place.format, wanted, items, part_bytes)
            out.append([_plain(wanted), [part.to_json() for part in parts]])
        return out

    return _answered(work)


def read_share(place: Place, share: str) -> str:
    """Read some parts back, and compare them with what was written.

    :param share: of :func:`parts_text`
    :returns: nothing, or an error; :func:`written` raises it
    """

    def work() -> list[Any]:
        storage = storage_at(place.folder)
        for raw, part in json.loads(share):
            (wanted,) = _ranges([raw])
            with reading(place.folder):
                for _ in read_part(storage, place.format, wanted, ExportPart.of(part)):
                    pass
        return []

    return _answered(work)


def ranges_text(ranges: Iterable[TailRange]) -> str:
    """Ranges for a task."""
    return json.dumps([_plain(each) for each in ranges], separators=(",", ":"))


def parts_text(parts: Iterable[tuple[TailRange, ExportPart]]) -> str:
    """Parts of partitions for a task."""
    return json.dumps([[_plain(each), part.to_json()] for each, part in parts], separators=(",", ":"))


def written(answers: Sequence[str]) -> tuple[list[WrittenRange], int]:
    """What tasks answered, and the largest memory of one, in bytes.

    :raises DrkitError: what one of them failed with
    """
    found, peak = [], 0
    for answer in answers:
        raw = json.loads(answer)
        if (error := raw.get(_ERROR)) is not None:
            kind: type[DrkitError] = getattr(errors, error.pop("kind"), Failed)
            raise restored(kind, error)
        peak = max(peak, raw["peak"])
        for wanted, parts in raw["found"]:
            (tail,) = _ranges([wanted])
            found.append(WrittenRange(tail, tuple(ExportPart.of(part) for part in parts)))
    return found, peak


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Turn an error that the storage raises into one of drkit's."""
    try:
        yield
    except OSError as error:
        raise Failed("export_not_written", where=place, evidence=error_text(error)) from error


def _answered(work: Callable[[], list[Any]]) -> str:
    try:
        answer = {"found": work(), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    except DrkitError as error:
        answer = {_ERROR: {"kind": type(error).__name__, **vars(error)}}
    return json.dumps(answer, separators=(",", ":"))


def _plain(wanted: TailRange) -> list[Any]:
    return [wanted.topic, str(wanted.topic_id), wanted.partition, wanted.first, wanted.end]


def _ranges(raw: Iterable[Sequence[Any]]) -> list[TailRange]:
    return [TailRange(topic, UUID(topic_id), *rest) for topic, topic_id, *rest in raw]


def _reader(settings: ClusterSettings) -> TailReader:
    address = settings.model_dump_json()
    if address not in _readers:
        _readers[address] = TailReader(settings)
    return _readers[address]
