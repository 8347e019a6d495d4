"""A file system of a few megabytes that can be filled: every write to it fails then, with ENOSPC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
import os
from pathlib import Path
import shutil
import subprocess
from typing import Final, NamedTuple

import pytest

from drkit.local.broker import LocalBroker

_UMOUNT: Final = ("umount", "--lazy")
_COPY: Final = ("cp", "--archive", "--sparse=always")
_PIECES: Final = (1 << 20, 1 << 12, 1)
"""Bytes of one write to the file that fills it: all of its room is taken, to the last byte."""


class SmallDisk(NamedTuple):
    """A mounted file system."""

    folder: Path

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def fill(self) -> None:
        """Take all of its room."""
        with self._filler.open("ab", buffering=0) as file:
            for piece in _PIECES:
                with suppress(OSError):
                    while file.write(bytes(piece)) == piece:
                        pass

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount one at a folder; skip the test where that needs rights that this user lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "drkit-test", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run([*_UMOUNT, str(folder)], check=True)


@contextmanager
def broker_on_small_disk(broker: LocalBroker, megabytes: int = 64) -> Iterator[SmallDisk]:
    """Move the data of a broker to a small disk; the broker is killed, and not started again."""
    broker.kill()
    data, before = broker.folder / "data", broker.folder / "before"
    data.rename(before)
    with small_disk(data, megabytes) as disk:
        # Kafka reserves 10 MB for the index of each partition, without writing them.
        subprocess.run([*_COPY, f"{before}/.", str(data)], check=True)
        yield disk
        broker.kill()
    shutil.rmtree(data)
    before.rename(data)
