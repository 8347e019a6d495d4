"""A folder that pyarrow reaches: an object store, or HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from drkit.errors import ConfigError
from drkit.export.storage import FoundFile, NewFile


class RemoteFolder:
    """A folder of one of pyarrow's file systems. See :class:`drkit.export.storage.Storage`."""

    def __init__(self, system: Any, root: str) -> None:
        self._system, self._root = system, root.rstrip("/")

    def exists(self) -> bool:
        """Return whether anything is there, even a folder that an object store does not know as such."""
        return bool(self._system.get_file_info(self._root).type != fs.FileType.NotFound)

    def make(self) -> None:
        """Make the folder."""
        if self.exists():
            raise FileExistsError(self._root)
        self._system.create_dir(self._root, recursive=True)

    def create(self, path: str) -> NewFile:
        """Create a file; the stores of pyarrow show it when it is closed."""
        whole = self._path(path)
        if self._system.get_file_info(whole).type != fs.FileType.NotFound:
            raise FileExistsError(whole)
        self._system.create_dir(whole.rpartition("/")[0], recursive=True)
        opened: NewFile = self._system.open_output_stream(whole)
        return opened

    def open(self, path: str) -> BinaryIO:
        """Open a file to read."""
        return BufferedReader(self._system.open_input_file(self._path(path)))

    def files(self) -> Iterator[FoundFile]:
        """Yield all files below the folder."""
        selector = fs.FileSelector(self._root, recursive=True)
        for info in self._system.get_file_info(selector):
            if info.type != fs.FileType.Directory:
                path = info.path.removeprefix(self._root).lstrip("/")
                yield FoundFile(path, info.size or 0, info.type == fs.FileType.File)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._system.delete_file(self._path(path))

    def remove(self) -> None:
        """Delete the folder."""
        self._system.delete_dir(self._root)

    def publish(self, path: str, name: str) -> None:
        """Give a file its final name."""
        self._system.move(self._path(path), self._path(name))

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"


def remote_folder(place: str) -> RemoteFolder:
    """Return the folder at a URL. Raises ConfigError if pyarrow knows no such file system."""
    try:
        system, path = fs.FileSystem.from_uri(place)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigError(
            "export_url_refused", where=place, evidence=str(error).splitlines()[0][:200]
        ) from error
    return RemoteFolder(system, path)
