"""The endpoint file: applications read it, or `drkit.client` follows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
import fcntl
import os
from pathlib import Path
import stat
from typing import Final

from drkit.atomic_file import replace_file
from drkit.config import ClusterSettings
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import Failed
from drkit.next_command import typed
from drkit.private_file import open_private
from drkit.repoint.contract import RepointEffect, TryAgain, judge

_MODE: Final = 0o644
"""Of a file that was not there before: applications run as other users."""
_LARGEST: Final = 16 << 20
"""Bytes that are read: a larger file holds something else."""


class EndpointFile:
    """Writes the endpoint as JSON: readers see the old or the new one, also after a power cut.

    A symbolic link stays; the file it points to is replaced, keeping its mode and, where allowed, its owner.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """See :class:`Adapter`."""
        return f"file {self._path}"

    def current(self) -> Endpoint | None:
        """See :class:`Adapter`."""
        try:
            text = self._read()
        except FileNotFoundError as error:
            if not self._path.parent.is_dir():
                raise self._failed("endpoint_folder_missing", error) from error
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._failed("endpoint_file_unreadable", error) from error
        try:
            return parse_endpoint(text)
        except ValueError as error:
            raise Failed("endpoint_file_foreign", where=str(self._path), evidence=str(error)) from error

    def _read(self) -> str:
        """Its text. A pipe or a device is not read: it may never end."""
        if not stat.S_ISREG(self._path.stat().st_mode):
            evidence = "a folder, pipe or device has its name"
            raise Failed("endpoint_file_irregular", where=str(self._path), evidence=evidence)
        with self._path.open("rb") as content:
            return content.read(_LARGEST).decode()

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """See :class:`Adapter`."""
        file = Path(os.path.realpath(self._path))
        try:
            with _only_one(file):
                effect = judge(self.current(), endpoint, self.name)
                if effect is RepointEffect.CHANGED:
                    replace_file(file, endpoint.to_json().encode(), new_mode=_MODE)
                return effect
        except BlockingIOError as error:
            raise TryAgain(
                "endpoint_file_locked",
                where=str(file),
                evidence=f"it holds a lock on {_lock_of(file)}",
                lock_of=typed("fuser", "-v", str(_lock_of(file))),
            ) from error
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise self._failed("endpoint_file_unwritable", error) from error
        except OSError as error:
            raise TryAgain("endpoint_file_unwritable", where=str(self._path), evidence=str(error)) from error

    def _failed(self, code: str, error: Exception) -> Failed:
        return Failed(code, where=str(self._path), evidence=str(error))


def _lock_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.lock")


@contextmanager
def _only_one(file: Path) -> Iterator[None]:
    """Lock out other writers between reading the term and writing. Raises BlockingIOError.

    The lock is on a file that only writers of the folder can open: any process that can open a file or folder
    can lock it, and clients read both.
    """
    lock = _lock_of(file)
    handle = _locked(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path) -> int:
    """The open file, locked; not one that its last holder has removed meanwhile. Raises OSError."""
    while True:
        handle = open_private(lock, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), lock.lstat()):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


_SERVERS: Final = "bootstrap.servers"


def endpoint_of(
    settings: ClusterSettings, *, term: int, cluster_id: str, topics: Mapping[str, str] | None = None
) -> Endpoint:
    """The endpoint of a cluster as its applications reach it.

    :param cluster_id: as its brokers showed it to drkit
    :param topics: previous names → names there; equal ones are left out
    """
    client = dict(settings.applications)
    servers = client.pop(_SERVERS, settings.bootstrap_servers)
    renamed = {name: there for name, there in sorted((topics or {}).items()) if name != there}
    return Endpoint(term, settings.alias, cluster_id, servers, client, renamed)
