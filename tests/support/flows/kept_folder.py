"""A disk that lost its tail: the folders of partitions, kept and put back while their broker is down."""

from __future__ import annotations

from pathlib import Path
import shutil

from drkit.local.broker import LocalBroker


class KeptFolder:
    """What partitions of one broker held at one moment.

    :param names: ``topic-partition``
    """

    def __init__(self, broker: LocalBroker, *names: str) -> None:
        self.broker = broker
        self._data = broker.folder / "data"
        self._kept = broker.folder / "kept"
        self._names = names

    def keep(self) -> None:
        for name in self._folders():
            shutil.copytree(name, self._kept / name.name)

    def put_back(self) -> None:
        for name in self._names:
            shutil.rmtree(self._data / name, ignore_errors=True)
            shutil.copytree(self._kept / name, self._data / name)

    def _folders(self) -> list[Path]:
        return [self._data / name for name in self._names]
