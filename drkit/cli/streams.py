"""Standard streams that may be closed, full, or in an encoding that lacks a character."""

from __future__ import annotations

import errno
import io
import os
import sys

from drkit.errors import DrkitError, Failed


def prepare() -> None:
    """Make closed streams drop all output, and escape characters that an encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_stdout() -> None:
    """Drop buffered output: the interpreter's last flush must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_of_the_system(error: OSError) -> bool:
    """Whether the error names a file, or a full or read-only disk: no fault of the program."""
    return bool(error.filename) or error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def refused_by_the_system(error: OSError) -> DrkitError:
    """The DrkitError for a refusal of the operating system: a full disk, a folder that cannot be created."""
    return Failed(
        "system_refused",
        where=str(error.filename or "standard output"),
        evidence=error.strerror or str(error),
    )
