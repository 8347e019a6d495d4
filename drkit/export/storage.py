"""The operations of an export's storage, and a folder of this machine as one.

New files and folders are readable by their owner only, and existing ones are never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO
import os
from pathlib import Path
import shutil
import stat
from typing import BinaryIO, Final, NamedTuple, Protocol

from drkit.atomic_file import sync_folder
from drkit.private_file import open_private

_OURS: Final = 0o700


class FoundFile(NamedTuple):
    """Something in the folder that is no folder."""

    path: str
    """From the folder on, with ``/`` between."""
    size: int
    is_plain: bool = True
    """False for a link, a device or a pipe."""


class NewFile(Protocol):
    """A file that is being written."""

    @property
    def closed(self) -> bool:
        """True once it is closed."""

    def write(self, data: bytes, /) -> int:
        """Write all of the data."""

    def close(self) -> None:
        """Close it, once it is durable."""


class Storage(Protocol):
    """A folder. Everything raises OSError."""

    def exists(self) -> bool:
        """Return whether the folder exists."""

    def make(self) -> None:
        """Make the folder, which must not be there, and those above it."""

    def create(self, path: str) -> NewFile:
        """Create a file, and the folders above it."""

    def open(self, path: str) -> BinaryIO:
        """Open a file to read."""

    def files(self) -> Iterator[FoundFile]:
        """Yield all files, also those in subfolders."""

    def delete(self, path: str) -> None:
        """Delete a file."""

    def remove(self) -> None:
        """Delete the folder with everything in it."""

    def publish(self, path: str, name: str) -> None:
        """Give a file its final name, in one step, when all else is durable."""


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self) -> bool:
        """Return whether the folder exists, even as a broken link."""
        return os.path.lexists(self._root)

    def make(self) -> None:
        """Make the folder, and those above it."""
        _make_all(self._root.parent)
        self._root.mkdir(_OURS)

    def create(self, path: str) -> NewFile:
        """Create a file, and the folders above it."""
        file = self._root / path
        _make_all(file.parent)
        descriptor = open_private(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        return _DurableFile(os.fdopen(descriptor, "wb", buffering=0))

    def open(self, path: str) -> BinaryIO:
        """Open a file to read."""
        return os.fdopen(open_private(self._root / path, os.O_RDONLY), "rb")

    def files(self) -> Iterator[FoundFile]:
        """Yield all files and links, also those in subfolders."""
        for folder, folders, names in os.walk(self._root, onerror=_raise):
            # A link to a folder is in the list of folders, and is not followed.
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            for name in sorted([*names, *links]):
                file = Path(folder) / name
                status = file.lstat()
                path = file.relative_to(self._root).as_posix()
                yield FoundFile(path, status.st_size, stat.S_ISREG(status.st_mode))

    def delete(self, path: str) -> None:
        """Delete a file."""
        (self._root / path).unlink()

    def remove(self) -> None:
        """Delete the folder with everything in it."""
        shutil.rmtree(self._root)

    def publish(self, path: str, name: str) -> None:
        """Give a file its final name, once every folder is on the disk."""
        for folder, _, _ in os.walk(self._root, topdown=False, onerror=_raise):
            sync_folder(Path(folder))
        (self._root / path).rename(self._root / name)
        sync_folder(self._root)
        sync_folder(self._root.parent)


class _DurableFile:
    """A file that is synced when it is closed, and leaves the page cache: readers read the disk."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.closed = False

    def write(self, data: bytes) -> int:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self._file.write(rest) or 0 :]
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with self._file as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _make_all(folder: Path) -> None:
    """Make a folder and those above it; pathlib gives those above it no mode."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(_OURS, exist_ok=True)


def _raise(error: OSError) -> None:
    raise error
