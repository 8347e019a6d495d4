"""A lock between processes (and threads) that a crash cannot leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import fcntl
import os
from pathlib import Path
import time

from drkit.errors import Failed, Refused, error_text
from drkit.private_file import open_private

_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.02


@contextmanager
def locked(file: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of this file, made if it is missing.

    :param on_wait: called when another process has held it for more than a second
    :raises Failed: the file cannot be opened, or it is a link
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with _opened(file) as lock:
        patience = time.monotonic() + _PATIENCE_SECONDS
        while not _try(lock):
            if time.monotonic() > patience:
                on_wait()
                fcntl.flock(lock, fcntl.LOCK_EX)
                break
            time.sleep(_POLL_SECONDS)
        yield


@contextmanager
def locked_alone(file: Path, code: str) -> Iterator[None]:
    """Hold the lock of this file, made if it is missing, or refuse at once. Its folder exists.

    :raises Refused: another process holds it; with this code
    :raises Failed: the file cannot be opened, or it is a link
    """
    with _opened(file) as lock:
        if not _try(lock):
            raise Refused(code, where=str(file.parent), evidence=f"its lock {file} is held")
        yield


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    try:
        handle = open_private(file, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise Failed("lock_unusable", where=str(file), evidence=error_text(error)) from error
    try:
        yield handle
    finally:
        os.close(handle)


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
