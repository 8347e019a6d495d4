"""One thread that works until it is stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
import threading
from typing import Self


class Background(ABC):
    """Runs `_run` in a daemon thread of its own, from :meth:`start` until :meth:`stop`, or in a ``with``.

    :param name: of the thread
    :param patience: seconds for which :meth:`stop` waits for the work in progress
    """

    def __init__(self, name: str, patience: float = 0.0) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._patience = patience

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; work in progress may outlast the patience."""
        self._ended.set()
        if self._patience and self._thread.is_alive():
            self._thread.join(self._patience)

    @abstractmethod
    def _run(self) -> None:
        """Work until `_ended` is set."""
