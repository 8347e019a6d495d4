"""A lock between processes (and threads) that a crash cannot leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import fcntl
from pathlib import Path


@contextmanager
def locked(file: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of this file, made if it is missing; ``on_wait`` is called when another holds it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
