"""What is checked and read of an export without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
import os
from typing import Final

from drkit.counted import first_of
from drkit.errors import ConfigError, DrkitError, ExportAltered, Failed, error_text
from drkit.export.manifest import MOST_BYTES, Manifest
from drkit.export.parts import Altered, check_file, read_part
from drkit.export.places import parent, storage_at
from drkit.export.record import ExportedRecord, Hole
from drkit.export.storage import Storage
from drkit.flow_state.codec.fields import Malformed

PUT_BACK: Final = "put back what was changed, from a copy of the export, and check it"
"""What helps whether or not the records can be exported again."""
_THREADS: Final = 4


def check_files(path: str, sha256: str | None = None) -> Manifest:
    """Check a manifest by its hash and every file by its own; none may be missing, none may be there besides.

    :param path: of the manifest
    :param sha256: the hash that the manifest must have; None: the one that it names itself
    :raises ConfigError: there is no manifest
    :raises Refused: something is not what was written; names the file
    :raises Failed: the folder cannot be read
    """
    manifest = listed_manifest(path, sha256)
    hash_topic(path, manifest)
    return manifest


def listed_manifest(path: str, sha256: str | None) -> Manifest:
    """Check a manifest by its hash, and that its files and no others are there. As :func:`check_files`."""
    place, name = parent(path)
    manifest = read_manifest(path, sha256)
    with reading(path):
        check_listing(storage_at(place), path, manifest, {name})
    return manifest


def hash_topic(path: str, manifest: Manifest, topic: str | None = None) -> None:
    """Check the files of a topic by their hashes; those of all without one. Errors as :func:`check_files`."""
    with reading(path):
        hash_files(storage_at(parent(path)[0]), manifest, topic)


def exported_records(
    path: str, topic: str, partition: int, manifest: Manifest | None = None
) -> Iterator[ExportedRecord]:
    """The records of a partition, in the order of their offsets; none where it was not exported.

    A file is hashed before the first of its records is returned, and its chain is compared after the last.

    :param path: of the manifest
    :param manifest: what :func:`check_files` returned; None: it is read, and compared with its own hash
    :raises ConfigError: there is no manifest
    :raises Refused: a file is not what was written; names the file or the offset
    :raises Failed: the folder cannot be read
    """
    storage = storage_at(parent(path)[0])
    manifest = manifest or read_manifest(path)
    found = manifest.partition(topic, partition)
    if found is None:
        return
    with reading(path):
        for part in found.parts:
            for item in read_part(storage, manifest.format, found.range, part):
                if not isinstance(item, Hole):
                    yield item


def read_manifest(path: str, sha256: str | None = None) -> Manifest:
    """The manifest alone. Parameters and errors are those of :func:`check_files`."""
    place, name = parent(path)
    storage = storage_at(place)
    try:
        with storage.open(name) as file:
            data = file.read(MOST_BYTES + 1)
        found = Manifest.parse(data)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise ConfigError("export_manifest_missing", where=path, evidence=error_text(error)) from error
    except OSError as error:
        raise _no_reading(path, error) from error
    except Malformed as error:
        raise altered(path, f"the manifest: {error}") from error
    if sha256 is not None and found.sha256 != sha256.strip().lower():
        raise altered(path, f"the manifest's SHA-256 is {found.sha256}, {sha256} was expected")
    return found


def check_listing(storage: Storage, path: str, manifest: Manifest, besides: set[str]) -> None:
    """Compare the existing files with those of a manifest.

    :param path: shown in errors
    :param besides: other files that may be there
    :raises Refused: one is missing, or there is one more
    """
    wanted = {f"{folder}/{file.name}" for folder, file in manifest.files()} | besides
    there = {found.path: found for found in storage.files()}
    if odd := sorted(name for name, found in there.items() if not found.is_plain):
        raise altered(path, f"no plain file: {first_of(odd)}")
    if missing := sorted(wanted - there.keys()):
        raise altered(path, f"missing: {first_of(missing)}")
    if more := sorted(there.keys() - wanted):
        raise altered(path, f"not in the manifest: {first_of(more)}")


def hash_files(storage: Storage, manifest: Manifest, topic: str | None = None) -> None:
    """Compare the hashes of all files, or of one topic's, several at once. Raises Altered if one differs."""
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        checks = [
            pool.submit(check_file, storage, f"{folder}/{file.name}", file)
            for folder, file in manifest.files(topic)
        ]
        try:
            for each in checks:
                each.result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise errors of reading an export as drkit's errors."""
    try:
        yield
    except Altered as error:
        raise altered(path, str(error)) from error
    except OSError as error:
        raise _no_reading(path, error) from error


def altered(path: str, evidence: str) -> ExportAltered:
    """Return the refusal of an export that was altered.

    Whether the old primary still has its records is unknown here; a caller that knows it replaces the hint.
    """
    return ExportAltered("export_altered", where=path, evidence=evidence)


def _no_reading(path: str, error: OSError) -> DrkitError:
    evidence = error_text(error) + (f": {error.filename}" if error.filename else "")
    return Failed("export_unreadable", where=path, evidence=evidence)
