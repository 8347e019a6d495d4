"""Notes of people and of mode auto in the topic of the observers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

PAUSE: Final = "pause"
AUTOMATIC: Final = "automatic"
LOOK: Final = "look"
"""Of whoever only looks on: no vote. What its topic takes tells an observer that the cluster is there."""
KNOWN: Final = "known"
"""What the observers know of the primary's brokers, for one that starts when the primary is gone."""


class Automatic(NamedTuple):
    """The last automatic failover."""

    by: str
    """The observer that began it."""
    run: str
    at_ms: int
    evidence: tuple[str, ...] = ()
    outcome: str = ""
    """How it ended; empty while it runs."""
    acknowledged_by: str = ""
    acknowledged_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As it stands in the topic."""
        return self._asdict() | {"evidence": list(self.evidence)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Automatic:
        """From the topic. What we do not understand counts as not acknowledged: mode auto stays off."""
        at, seen = raw.get("at_ms"), raw.get("acknowledged_ms")
        return cls(
            str(raw.get("by", "somebody")), str(raw.get("run", "")), at if isinstance(at, int) else 0,
            tuple(map(str, raw.get("evidence") or ())), str(raw.get("outcome", "")),
            str(raw.get("acknowledged_by", "")), seen if isinstance(seen, int) else None,
        )  # fmt: skip


def paused(raw: Mapping[str, Any] | None) -> str:
    """Who paused failovers, and why; empty: nobody."""
    if raw is None:
        return ""
    why = str(raw.get("why", ""))
    return f"paused by {raw.get('by', 'somebody')}" + (f": {why}" if why else "")
