"""Settings of the C library's allocator, by its own report; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

_COUNT: Final = """
import ctypes, os, sys, tempfile, threading
from drkit.allocator import share_heap

libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_info"):
    sys.exit("no glibc")
libc.fopen.restype = ctypes.c_void_p
if {shared}:
    share_heap()
stop = threading.Event()
allocated = threading.Barrier(5)


def allocate():
    block = bytearray(100_000)
    allocated.wait()
    stop.wait()


threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
allocated.wait()
path = os.path.join(tempfile.mkdtemp(), "heaps")
file = ctypes.c_void_p(libc.fopen(path.encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
stop.set()
print(open(path).read().count("<heap "))
"""


def _heaps(*, shared: bool) -> int:
    ended = subprocess.run(
        [sys.executable, "-c", _COUNT.format(shared=shared)], capture_output=True, text=True, check=False
    )
    if ended.stderr.strip() == "no glibc":
        pytest.skip("the C library is not glibc")
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def test_threads_share_one_heap() -> None:
    """The driver's resident memory grew with each epoch: what was free in one heap served no other."""
    assert _heaps(shared=False) > 1
    assert _heaps(shared=True) == 1
