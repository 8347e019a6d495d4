"""A headless Chromium, driven through its own protocol over a pipe: no driver, no port."""

from __future__ import annotations

import base64
import fcntl
import json
import os
from pathlib import Path
import shutil
import signal
from typing import Any, Self

from tests.support.waiting import eventually

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FREE = 20
"""File descriptors from here on are unused."""


class Browser:
    """One page of one browser; use it in a ``with`` statement."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        theirs, self._write = os.pipe()
        self._read, ours = os.pipe()
        command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]  # fmt: skip
        # The browser reads commands from file descriptor 3 and writes answers to 4.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FREE) for fd in (theirs, ours)]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, fd, to) for fd, to in zip((*ends, nowhere), (3, 4, 2), strict=True)]
        self._process = os.posix_spawn(PROGRAM, command, os.environ, file_actions=actions)
        for fd in (theirs, ours, *ends, nowhere):
            os.close(fd)
        self._number, self._buffer = 0, b""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._write)
        os.close(self._read)

    def _ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        told = {"id": self._number, "method": method, "params": parameters}
        os.write(self._write, json.dumps(told | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                more = os.read(self._read, 1 << 20)
                assert more, "the browser has ended"
                self._buffer += more
            line, _, self._buffer = self._buffer.partition(b"\0")
            answer = json.loads(line)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                found: dict[str, Any] = answer["result"]
                return found

    def size(self, width: int, height: int = 900, *, scheme: str = "light") -> None:
        """How large the window is, and whether the reader likes it light or dark."""
        self._ask("Emulation.setDeviceMetricsOverride", self._session, width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", self._session, features=features)

    def open(self, address: str, ready: str) -> None:
        """Go to a page and wait until an expression is true there."""
        self._ask("Page.navigate", self._session, url=address)
        self.until(ready)

    def run(self, expression: str) -> Any:
        """What an expression gives, as JSON."""
        answer = self._ask("Runtime.evaluate", self._session, expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 20.0) -> Any:
        """Wait until an expression is true; returns what it gives."""
        return eventually(lambda: self.run(expression), seconds, expression)

    def save_picture(self, file: Path) -> None:
        """Save what the window shows as a PNG file."""
        file.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", self._session)["data"]))

    def text(self) -> str:
        """What a reader sees."""
        return str(self.run("document.body.innerText"))
