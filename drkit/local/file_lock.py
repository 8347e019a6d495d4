"""A lock between processes (and threads) that a crash cannot leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import fcntl
from pathlib import Path
import time
from typing import IO

from drkit.errors import Refused

_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.02


@contextmanager
def locked(file: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of this file, made if it is missing.

    :param on_wait: called when another process has held it for more than a second
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
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
    """
    with file.open("w") as lock:
        if not _try(lock):
            raise Refused(code, where=str(file.parent), evidence=f"its lock {file} is held")
        yield


def _try(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
