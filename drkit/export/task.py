"""The tasks of an export in Spark's executors: one writes some ranges, another one reads parts back.

The input and the answer of a task are JSON. An error of drkit's is an answer, too: another attempt would
end in the same way, and its evidence would be lost on the way through Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
import json
import resource
from typing import Any, Final, NamedTuple

from drkit import errors
from drkit.config import ClusterSettings
from drkit.errors import DrkitError, Failed, error_text, restored
from drkit.export.check import reading
from drkit.export.manifest import ExportFormat, PartitionExport, partition_export
from drkit.export.parts import read_part, write_parts
from drkit.export.places import storage_at
from drkit.export.reading import TailReader
from drkit.export.request import CopiedBack

_ERROR: Final = "error"
_readers: dict[str, TailReader] = {}
"""By connection settings: Spark keeps its Python workers, so connections stay open, too."""


class Place(NamedTuple):
    """The folder and the format of the files."""

    folder: str
    """Of the manifest."""
    format: ExportFormat


def write_share(place: Place, share: str, source: ClusterSettings, skip: CopiedBack, part_bytes: int) -> str:
    """Export the ranges of a share, a text of :func:`share_text`; return the answer for :func:`written`."""

    def work() -> list[PartitionExport]:
        storage, reader = storage_at(place.folder), _reader(source)
        out = []
        for tail in (each.range for each in _share(share)):
            with writing(place.folder):
                items = reader.read(tail, skip.left_out(tail))
                parts = write_parts(storage, place.format, tail, items, part_bytes)
            out.append(partition_export(tail, parts))
        return out

    return _answered(work)


def read_share(place: Place, share: str) -> str:
    """Compare the parts of a share with their files; return the answer for :func:`written`."""

    def work() -> list[PartitionExport]:
        storage = storage_at(place.folder)
        for each in _share(share):
            for part in each.parts:
                with reading(place.folder):
                    deque(read_part(storage, place.format, each.range, part), maxlen=0)
        return []

    return _answered(work)


def share_text(partitions: Iterable[PartitionExport]) -> str:
    """Return the text of a task's input, or of its result."""
    return json.dumps([each.to_json() for each in partitions], separators=(",", ":"))


def _share(text: str) -> list[PartitionExport]:
    return [PartitionExport.of(raw) for raw in json.loads(text)]


def written(answers: Sequence[str]) -> tuple[list[PartitionExport], int]:
    """Return what tasks wrote, and the largest memory of one in bytes. Raises the error of a failed task."""
    exports, peak = list[PartitionExport](), 0
    for answer in answers:
        raw = json.loads(answer)
        if (error := raw.get(_ERROR)) is not None:
            kind: type[DrkitError] = getattr(errors, error.pop("kind"), Failed)
            raise restored(kind, error)
        peak = max(peak, raw["peak"])
        exports += _share(raw["found"])
    return exports, peak


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Raise an error of the storage as one of drkit's."""
    try:
        yield
    except OSError as error:
        raise Failed("export_not_written", where=place, evidence=error_text(error)) from error


def _answered(work: Callable[[], list[PartitionExport]]) -> str:
    answer: dict[str, Any]
    try:
        answer = {
            "found": share_text(work()),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    except DrkitError as error:
        answer = {_ERROR: {"kind": type(error).__name__, **vars(error)}}
    return json.dumps(answer, separators=(",", ":"))


def _reader(settings: ClusterSettings) -> TailReader:
    address = settings.model_dump_json()
    if address not in _readers:
        _readers[address] = TailReader(settings)
    return _readers[address]
