"""The operations of an export's storage, on this machine or elsewhere.

New files and folders are readable by their owner only, and existing ones are never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol


class FoundFile(NamedTuple):
    """Something in the folder that is no folder."""

    path: str
    """From the folder on, with ``/`` between."""
    size: int
    is_plain: bool = True
    """False: a link, a device, a pipe."""


class NewFile(Protocol):
    """A file that is being written."""

    @property
    def closed(self) -> bool:
        """Whether it is closed."""

    def write(self, data: bytes, /) -> int:
        """Write all of the data."""

    def close(self) -> None:
        """Close it, once it is durable."""


class Storage(Protocol):
    """A folder. Everything raises OSError."""

    is_local: bool

    def exists(self) -> bool:
        """Whether the folder is there."""

    def make(self) -> None:
        """Make the folder, which must not be there, and those above it."""

    def create(self, path: str) -> NewFile:
        """A new file; the folders above it are made."""

    def open(self, path: str) -> BinaryIO:
        """A file to read."""

    def files(self) -> Iterator[FoundFile]:
        """All files, also those in folders of the folder."""

    def delete(self, path: str) -> None:
        """Delete a file."""

    def remove(self) -> None:
        """Delete the folder with everything in it."""

    def publish(self, path: str, name: str) -> None:
        """Give a file its final name, in one step, when all else is durable."""
