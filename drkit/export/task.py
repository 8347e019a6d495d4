"""What runs in Spark's executors: one task writes some ranges, another one reads some parts back.

The input and the answer of a task are JSON. An error of drkit's is an answer, too: another attempt would
end in the same way, and its evidence would be lost on the way through Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
import resource
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from drkit import errors
from drkit.config import ClusterSettings
from drkit.errors import DrkitError, Failed, error_text, restored
from drkit.export.check import reading
from drkit.export.manifest import ExportFormat, ExportPart, TailRange
from drkit.export.parts import read_part, write_parts
from drkit.export.places import storage_at
from drkit.export.ranges import CopiedBack
from drkit.export.reading import TailReader
from drkit.flow_state.codec.record import TaskData

_readers: dict[str, TailReader] = {}
"""By connection settings: Spark keeps its Python workers, so connections stay open, too."""


class WrittenRange(NamedTuple):
    """What a task wrote of a range."""

    wanted: TailRange
    parts: tuple[ExportPart, ...]


@dataclass(frozen=True, slots=True)
class _Answer(TaskData):
    found: list[WrittenRange] = field(default_factory=list)
    peak: int = 0
    error: dict[str, Any] | None = None


_RANGES: Final = TypeAdapter(list[TailRange])
_PARTS: Final = TypeAdapter(list[tuple[TailRange, ExportPart]])


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

    def work() -> list[WrittenRange]:
        storage, reader = storage_at(place.folder), _reader(source)
        out = []
        for wanted in _RANGES.validate_json(share):
            with writing(place.folder):
                items = reader.read(wanted, skip.left_out(wanted))
                parts = write_parts(storage, place.format, wanted, items, part_bytes)
            out.append(WrittenRange(wanted, tuple(parts)))
        return out

    return _answered(work)


def read_share(place: Place, share: str) -> str:
    """Read some parts back, and compare them with what was written.

    :param share: of :func:`parts_text`
    :returns: nothing, or an error; :func:`written` raises it
    """

    def work() -> list[WrittenRange]:
        storage = storage_at(place.folder)
        for wanted, part in _PARTS.validate_json(share):
            with reading(place.folder):
                for _ in read_part(storage, place.format, wanted, part):
                    pass
        return []

    return _answered(work)


def ranges_text(ranges: Iterable[TailRange]) -> str:
    """Ranges for a task."""
    return _RANGES.dump_json(list(ranges)).decode()


def parts_text(parts: Iterable[tuple[TailRange, ExportPart]]) -> str:
    """Parts of partitions for a task."""
    return _PARTS.dump_json(list(parts)).decode()


def written(answers: Sequence[str]) -> tuple[list[WrittenRange], int]:
    """What tasks answered, and the largest memory of one, in bytes.

    :raises DrkitError: what one of them failed with
    """
    found = [_Answer.from_json(answer) for answer in answers]
    for each in found:
        if (error := each.error) is not None:
            kind: type[DrkitError] = getattr(errors, error.pop("kind"), Failed)
            raise restored(kind, error)
    return [written for each in found for written in each.found], max(
        (each.peak for each in found), default=0
    )


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Turn an error that the storage raises into one of drkit's."""
    try:
        yield
    except OSError as error:
        raise Failed("export_not_written", where=place, evidence=error_text(error)) from error


def _answered(work: Callable[[], list[WrittenRange]]) -> str:
    try:
        answer = _Answer(work(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    except DrkitError as error:
        answer = _Answer(error={"kind": type(error).__name__, **vars(error)})
    return answer.to_json()


def _reader(settings: ClusterSettings) -> TailReader:
    address = settings.model_dump_json()
    if address not in _readers:
        _readers[address] = TailReader(settings)
    return _readers[address]
