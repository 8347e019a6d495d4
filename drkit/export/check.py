"""What is checked and read of an export without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from drkit.export.manifest import Manifest
from drkit.export.record import ExportedRecord


def check_files(path: str, sha256: str | None = None) -> Manifest:
    """Check a manifest by its hash and every file by its own; none may be missing, none may be there besides.

    :param path: of the manifest
    :param sha256: the hash that the manifest must have; None: the one that it names itself
    :raises Refused: something is not what was written; names the file
    :raises Failed: the place cannot be read
    """
    raise NotImplementedError


def exported_records(
    path: str, topic: str, partition: int, manifest: Manifest | None = None
) -> Iterator[ExportedRecord]:
    """The records of a partition, in the order of their offsets; nothing where it was not exported.

    A file is hashed before the first of its records is returned, and its chain is compared after the last.

    :param path: of the manifest
    :param manifest: what :func:`check_files` returned; None: it is read, and compared with its own hash
    :raises Refused: a file is not what was written; names the file or the offset
    """
    raise NotImplementedError
