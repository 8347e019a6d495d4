"""When a verdict is told to people, and with which command. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drkit.detect.reasons import Reason, runbook
from drkit.detect.verdict import Verdict, VerdictKind
from drkit.next_command import typed
from drkit.visible import visible

_LOSS: Final = frozenset({Reason.LAG_UNKNOWN, Reason.LAG_ABOVE_RPO})
_PERSON_DECIDES: Final = frozenset({
    Reason.LAG_UNKNOWN, Reason.LAG_ABOVE_RPO, Reason.NOT_ACKNOWLEDGED, Reason.NO_FENCE_AGENT,
})  # fmt: skip
"""What a person may pass over with a command of their own."""

NIGHT: Final = "docs/how-to/night.md"
"""The page for the one who is called."""


def failover_command(flow: str, verdict: Verdict, options: Iterable[str] = ()) -> str:
    """The exact command to run; empty while there is none.

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

    :param command: empty: there is none
    """
    lines = [f"{flow}: {verdict.name}", *(f"- {visible(line)}" for line in verdict.evidence)]
    lines.append(f"next: {command or verdict.next}")
    if verdict.kind is VerdictKind.HOLD:
        lines.append(f"see {runbook(verdict.reason)}")
    if verdict.kind is VerdictKind.LOST:
        lines.append(f"how to decide: {NIGHT}")
    return "\n".join(lines)


class Announcer:
    """Decides when somebody is called. Times in seconds of a steady clock.

    A lost primary is told at once; everything else when it has stood for a while, so that a broker that is
    restarted wakes nobody; suspicions never. What stays bad is told again.

    :param settle: how long a verdict must stand
    :param repeat: after this time a HOLD or LOST is told again
    """

    def __init__(self, settle: float, repeat: float) -> None:
        self._settle = settle
        self._repeat = repeat
        self._standing: tuple[object, ...] | None = None
        self._since = 0.0
        self._told: tuple[object, ...] | None = None
        self._told_at = 0.0

    def due(self, verdict: Verdict, now: float) -> bool:
        """Whether this verdict is to be told now."""
        key = (verdict.kind, verdict.reason, verdict.obstacles)
        if key != self._standing:
            self._standing, self._since = key, now
        if verdict.kind is VerdictKind.SUSPECT or not self._is_news(verdict, key, now):
            return False
        self._told, self._told_at = key, now
        return True

    def _is_news(self, verdict: Verdict, key: tuple[object, ...], now: float) -> bool:
        if key == self._told:
            return verdict.kind >= VerdictKind.HOLD and now - self._told_at >= self._repeat
        if self._told is None and verdict.kind is VerdictKind.UP:
            return False  # that all is well is no news, before anything was told
        return verdict.primary_lost or now - self._since >= self._settle
