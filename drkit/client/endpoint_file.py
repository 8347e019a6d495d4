"""Reads the endpoint file, whatever is found under its name, without waiting and within limits."""

from __future__ import annotations

import os
from pathlib import Path
import stat
from typing import Final

MAX_BYTES: Final = 4 * 1024 * 1024
"""Room for twenty thousand renamed topics; a ConfigMap holds a quarter of it."""
_PART_BYTES: Final = 64 * 1024
Stamp = tuple[int, int, int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """A value that changes with the file; None if no file is visible."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def read_text(path: Path) -> str:
    """The content of a regular file. A pipe or a device is not waited for.

    :raises OSError: it cannot be read
    :raises ValueError: it is not a regular file, too large, or not UTF-8
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is not a regular file")
        parts, size = list[bytes](), 0
        while size <= MAX_BYTES and (part := os.read(file, _PART_BYTES)):
            parts.append(part)
            size += len(part)
    finally:
        os.close(file)
    if size > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    return b"".join(parts).decode("utf-8")
