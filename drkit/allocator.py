"""Memory settings of our processes: memory is kept, shared, reused, and seldom searched for cycles.

A checkpoint round makes and keeps objects by the hundred thousand, none of them in a cycle; searching them
took 40 % of its time (48,000 offsets: 5.1 CPU seconds before, 3.0 after).

glibc maps each allocation above 128 KiB separately and unmaps it when it is freed, so for a task that fetches
responses of megabytes the kernel clears the same pages repeatedly: that took three quarters of a copy task's
system time (485 MB: 0.85 s of 1.7 CPU seconds before, 0.25 s after), and more on virtual machines that get
their memory page by page from their host.
"""

from __future__ import annotations

import ctypes
from functools import cache
import gc
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20
"""The largest value that glibc accepts on 64 bits (mallopt(3))."""
_KEPT_BYTES: Final = 128 << 20
"""Free memory at the end of the heap that stays with the process."""
_TOUCHED_BYTES: Final = 64 << 20
"""Memory that every copy task uses: added to the heap before the first records."""
_NEW_OBJECTS: Final = 20_000
"""Surplus of new over freed objects at which the young ones are searched for cycles: closed connections."""


@cache
def keep_memory() -> bool:
    """Make this process keep and reuse freed memory, once per process.

    Returns whether the C library supports that (glibc).
    """
    search_seldom()
    kept = _mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and _mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    if kept:
        _touch()
    return kept


def share_heap() -> None:
    """Let all threads of this process allocate from one heap; to be called before they start.

    glibc gives each thread a heap of its own, and memory that is free in one serves no other: resident memory
    of `drkit replicate` grew by 5 KB an epoch, all of it free.
    """
    _mallopt(_M_ARENA_MAX, 1)


def _mallopt(option: int, value: int) -> bool:
    """Set an option of the C library's allocator; returns False where there is none (not glibc)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(option, value))


@cache
def search_seldom() -> None:
    """Make Python's garbage collector search new objects less often, and imported ones never."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


def free_cycles() -> None:
    """Search all objects for cycles, also those that were never to be searched: clients hang on them.

    Takes up to a second; a search by itself may be hours away.
    """
    is_seldom = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    if is_seldom:
        gc.freeze()


def _touch() -> None:
    """Get memory from the system while the task connects, not page by page during the first records."""
    size = _LARGEST_MMAP_THRESHOLD // 2
    blocks = [b"\1" * size for _ in range(_TOUCHED_BYTES // size)]
    del blocks
