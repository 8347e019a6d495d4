"""How drkit's processes treat their memory: kept and reused, and seldom searched for cycles.

A checkpoint round makes and keeps objects by the hundred thousand, none of them in a cycle; searching them
was 40 % of its time (48,000 offsets: 5.1 CPU seconds before, 3.0 after).

glibc maps each allocation above 128 KiB by itself and gives it back when it is freed, so a task that fetches
answers of megabytes has the kernel clear the same pages again and again: that was three quarters of a copy
task's system time (485 MB: 0.85 s of 1.7 CPU seconds before, 0.25 s after), and on virtual machines that get
their memory page by page from their host it was more.
"""

from __future__ import annotations

import ctypes
from functools import cache
import gc
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20
"""glibc takes no larger one on 64 bits (mallopt(3))."""
_KEPT_BYTES: Final = 128 << 20
"""Free memory at the end of the heap that stays with the process."""
_TOUCHED_BYTES: Final = 64 << 20
"""Bytes that every copy task will use: added to the heap before records wait for them."""
_PAGE_BYTES: Final = 4096
_NEW_OBJECTS: Final = 50_000
"""The garbage collector searches young objects when this many more were created than freed."""


@cache
def keep_memory() -> bool:
    """Let this process reuse the memory that it frees.

    Returns whether the C library supports this (glibc).
    """
    search_seldom()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mapped = mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    kept = bool(mapped and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
    if kept:
        _touch()
    return kept


@cache
def search_seldom() -> None:
    """Let Python's garbage collector search new objects less often, and imported ones never."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


def _touch() -> None:
    """Get memory from the system now, while the task connects, not page by page with the first records."""
    size = _LARGEST_MMAP_THRESHOLD // 2
    blocks = [bytearray(size) for _ in range(_TOUCHED_BYTES // size)]
    for block in blocks:
        block[::_PAGE_BYTES] = b"\1" * len(range(0, size, _PAGE_BYTES))
