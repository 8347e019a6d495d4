"""Standard streams as drkit finds them: closed, full, or of an encoding that lacks a letter."""

from __future__ import annotations

import errno
import io
import os
import sys

from drkit.errors import DrkitError, Failed


def prepare() -> None:
    """A closed stream takes and drops what is written; a letter that an encoding lacks becomes an escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_stdout() -> None:
    """Let what is still in its buffer go nowhere: the interpreter's last flush must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_of_the_system(error: OSError) -> bool:
    """Whether it names a file, or a disk that is full or read-only: no fault of the program's."""
    return bool(error.filename) or error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def refused_by_the_system(error: OSError) -> DrkitError:
    """What the operating system refuses: a full disk, a folder that cannot be made; no fault of drkit's."""
    return Failed(
        "the operating system refused it",
        where=str(error.filename or "standard output"),
        evidence=error.strerror or str(error),
        hint="name another place, or clear the reason, then run the command again",
    )
