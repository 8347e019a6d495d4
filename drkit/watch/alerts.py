"""Send alerts: by log, command and webhook, once for each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import json
import queue
import threading
from typing import Any, Final

from drkit import observe
from drkit.config.tables.watch import WatchSettings
from drkit.detect.reasons import Reason, page_name
from drkit.detect.verdict import Verdict, VerdictKind
from drkit.errors import DrkitError
from drkit.kafka.clients import tls_context
from drkit.kafka.security.settings import Tls
from drkit.next_command import typed
from drkit.repoint.http import HttpCaller, place_of
from drkit.repoint.program import run_program
from drkit.repoint.webhook import post
from drkit.visible import visible

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
            for channel, send in (("webhook", self._post), ("command", self._execute)):
                for attempt in range(_TRIES):
                    problem = send(body)
                    if not problem:
                        break
                    observe.event("not_told", level="error", how=channel, reason=problem, attempt=attempt + 1)
                    self._ended.wait(1.0 + attempt)

    def _post(self, body: bytes) -> str:
        """Returns why it failed; empty when it did not."""
        url = self._settings.webhook
        if not url:
            return ""
        problem = post(self._caller, url, self._settings.webhook_secret, body)
        return f"{place_of(url)}: {problem}" if problem else ""

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


_LOSS: Final = frozenset({Reason.LAG_UNKNOWN, Reason.LAG_ABOVE_RPO})
_PERSON_DECIDES: Final = frozenset({
    Reason.LAG_UNKNOWN, Reason.LAG_ABOVE_RPO, Reason.NOT_ACKNOWLEDGED, Reason.NO_FENCE_AGENT,
})  # fmt: skip
"""Reasons that a person may overrule with a command."""

NIGHT: Final = "drkit explain night"
"""The command that prints the page for the engineer on call."""


def failover_command(flow: str, verdict: Verdict, options: Iterable[str] = ()) -> str:
    """The exact command to run; empty while no command applies.

    :param options: of the running command, such as its configuration file
    """
    obstacles = set(verdict.obstacles)
    if not verdict.primary_lost or obstacles - _PERSON_DECIDES:
        return ""
    words = ["drkit", "failover", "--all", "--flow", flow, *options]
    if obstacles & _LOSS:
        words += ["--accept-data-loss", "REASON"]
    return typed(*words)


def in_words(flow: str, verdict: Verdict, command: str) -> str:
    """A verdict for a person's screen: what, why, and what to type.

    :param command: empty: no command applies
    """
    lines = [f"{flow}: {verdict.name}", *(f"- {visible(line)}" for line in verdict.evidence)]
    if verdict.kind is VerdictKind.LOST and command:
        lines.append(f"first: {command} --dry-run")
    lines.append(f"next: {command or verdict.next}")
    if verdict.kind is VerdictKind.HOLD:
        lines.append(f"what it means: drkit explain {page_name(verdict.reason)}")
    if verdict.kind is VerdictKind.LOST:
        lines.append(f"how to decide: {NIGHT}")
    return "\n".join(lines)


class Announcer:
    """Decides when a verdict is announced. Times in seconds of a steady clock.

    A lost primary is announced at once; other verdicts after a delay, so that the restart of a broker raises
    no alarm; suspicions never. A verdict that stays bad is repeated.

    :param settle: how long a verdict must last
    :param repeat: interval at which a HOLD or LOST is repeated
    """

    def __init__(self, settle: float, repeat: float) -> None:
        self._settle = settle
        self._repeat = repeat
        self._newest: tuple[object, ...] | None = None
        self._since = 0.0
        self._announced: tuple[object, ...] | None = None
        self._announced_at = 0.0

    def due(self, verdict: Verdict, now: float) -> bool:
        """Return whether to announce this verdict now; if so, it counts as announced."""
        key = (verdict.kind, verdict.reason, verdict.obstacles)
        if key != self._newest:
            self._newest, self._since = key, now
        if verdict.kind is VerdictKind.SUSPECT or not self._is_news(verdict, key, now):
            return False
        self._announced, self._announced_at = key, now
        return True

    def _is_news(self, verdict: Verdict, key: tuple[object, ...], now: float) -> bool:
        if key == self._announced:
            return verdict.kind >= VerdictKind.HOLD and now - self._announced_at >= self._repeat
        if self._announced is None and verdict.kind is VerdictKind.UP:
            return False  # UP is no news before the first announcement
        return verdict.primary_lost or now - self._since >= self._settle
