"""A link that is open and cut by turns, from a thread."""

from __future__ import annotations

import random
import threading
from typing import Self

from drkit.local.link import Link


class Flapping:
    """Cuts and restores a link every one to two seconds, in a ``with``; afterwards it is open."""

    def __init__(self, link: Link, *, seed: int) -> None:
        self._link, self._chance = link, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.cuts = 0
        """How often it was cut."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        self._link.restore()

    def _run(self) -> None:
        while not self._stop.wait(self._chance.uniform(1.0, 2.0)):
            self._link.cut()
            self.cuts += 1
            self._stop.wait(self._chance.uniform(1.0, 2.0))
            self._link.restore()
