"""A disk that is full for Spark's tasks, without the right to mount one: no file may grow any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
import os
from pathlib import Path
import resource

_FEW_BYTES = 512


@contextmanager
def full_disk() -> Iterator[int]:
    """With every JVM of Spark that this process has launched, and its workers, out of room; how many JVMs.

    A write over the limit is an error of the operating system, as on a full disk.
    """
    found = [pid for pid in _descendants(os.getpid()) if _runs_spark(pid)]
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in found}
    try:
        for pid, (_, most) in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FEW_BYTES, most))
        yield sum(b"java" in _command(pid) for pid in found)
    finally:
        for pid in {*found, *filter(_runs_spark, _descendants(os.getpid()))}:
            with suppress(ProcessLookupError):  # a worker that has ended meanwhile
                _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text(encoding="ascii").split()):
                found += [child, *_descendants(child)]
    return found


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _runs_spark(pid: int) -> bool:
    return any(name in _command(pid) for name in (b"org.apache.spark", b"pyspark"))
