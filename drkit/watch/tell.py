"""Alarms people: posts to a webhook, runs a command. Uses its own thread, so that the watch does not wait."""

from __future__ import annotations

from collections.abc import Mapping
import json
import queue
import threading
from typing import Any, Final

from drkit import observe
from drkit.clock import wall_ms
from drkit.config.tables.watch import WatchSettings
from drkit.errors import DrkitError
from drkit.kafka.clients import tls_context
from drkit.kafka.security.settings import Tls
from drkit.repoint.http import HttpCaller, place_of
from drkit.repoint.program import run_program
from drkit.repoint.webhook import signed

_SECONDS: Final = 10.0
_TRIES: Final = 3
_WAITING: Final = 100
_SHOWN: Final = 500


class Teller:
    """Sends each message to the webhook and to the command of the settings."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._caller = HttpCaller(
            tls_context(Tls(ca_file=settings.webhook_ca_file), "[watch] webhook"), _SECONDS
        )
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teller", daemon=True)
        self._thread.start()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Queue a message; when the queue is full, it is only logged."""
        if not self._settings.webhook and not self._settings.command:
            return
        try:
            self._queue.put_nowait(json.dumps(message, default=str).encode())
        except queue.Full:
            observe.event(
                "not_told", level="error", reason=f"{_WAITING} messages wait", flow=message.get("flow")
            )

    def close(self, seconds: float = 2.0) -> None:
        """Stop; waits at most `seconds` until queued messages are sent."""
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
        headers = {"Content-Type": "application/json", "User-Agent": "drkit"}
        if self._settings.webhook_secret:
            headers |= signed(self._settings.webhook_secret, body, wall_ms())
        try:
            answer = self._caller.call("POST", url, headers, body)
        except DrkitError as error:
            return f"{place_of(url)}: {error.in_short}"
        return "" if answer.is_done else f"{place_of(url)}: {answer.text}"

    def _execute(self, body: bytes) -> str:
        command = self._settings.command
        if not command:
            return ""
        try:
            done = run_program(command, body.decode(), {}, _SECONDS * 3)
        except DrkitError as error:
            return f"{command[0]}: {error.in_short}"
        output = done.output[-_SHOWN:] or "it said nothing"
        return f"{command[0]}: exit code {done.code}: {output}" if done.code else ""
