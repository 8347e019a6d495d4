"""Work in a thread beside a test."""

from __future__ import annotations

from abc import ABC, abstractmethod
import threading
from typing import Self


class SideJobs(ABC):
    """A thread that works until `stop`; what fails there fails the test."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=type(self).__name__)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let it come to its end."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self._failure = error

    @abstractmethod
    def _run(self) -> None:
        """The work."""
