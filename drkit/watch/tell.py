"""Tells people: posts to a webhook, runs a command. From a thread of its own, so that watching goes on."""

from __future__ import annotations

from collections.abc import Mapping
import json
import queue
import subprocess
import threading
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from drkit import observe
from drkit.config.watch import WatchSettings

_SECONDS: Final = 10.0
_TRIES: Final = 3
_WAITING: Final = 100
_SHOWN: Final = 500


class Teller:
    """Sends each message to the webhook and to the command of the settings."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teller", daemon=True)
        self._thread.start()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message soon; when too many wait, it is only logged."""
        if not self._settings.webhook and not self._settings.command:
            return
        try:
            self._queue.put_nowait(json.dumps(message, default=str).encode())
        except queue.Full:
            observe.event(
                "not_told", level="error", reason=f"{_WAITING} messages wait", flow=message.get("flow")
            )

    def close(self, seconds: float = 2.0) -> None:
        """End, after what waits if that takes only moments."""
        self._ended.set()
        self._queue.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while (body := self._queue.get()) is not None:
            for what, send in (("webhook", self._post), ("command", self._execute)):
                for attempt in range(_TRIES):
                    why = send(body)
                    if not why:
                        break
                    observe.event("not_told", level="error", how=what, reason=why, attempt=attempt + 1)
                    self._ended.wait(1.0 + attempt)

    def _post(self, body: bytes) -> str:
        """Returns why it failed; empty when it did not."""
        url = self._settings.webhook
        if not url:
            return ""
        # The settings allow http and https only.
        request = Request(url, body, {"Content-Type": "application/json", "User-Agent": "drkit"})  # noqa: S310
        try:
            with urlopen(request, timeout=_SECONDS):  # noqa: S310  likewise
                return ""
        except (URLError, OSError) as error:
            return str(error)

    def _execute(self, body: bytes) -> str:
        command = self._settings.command
        if not command:
            return ""
        try:
            # The program is the user's own setting, and no shell reads it.
            done = subprocess.run(  # noqa: S603
                command, input=body, capture_output=True, timeout=_SECONDS * 3, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-_SHOWN:]
        return f"exit code {done.returncode}: {said}" if done.returncode else ""
