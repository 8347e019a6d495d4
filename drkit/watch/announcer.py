"""When a verdict is announced to people, and with which command. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drkit.detect.reasons import Reason, page_name
from drkit.detect.verdict import Verdict, VerdictKind
from drkit.next_command import typed
from drkit.visible import visible

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
        """Whether to announce this verdict now; if so, it counts as announced."""
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
