"""The current state of each drill, from the entries of its history. Pure, but for the life of processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from drkit.chaos.verdict import PASS
from drkit.config import Settings
from drkit.config.tables.drills import DrillSettings
from drkit.drill.entry import MISSED, SCHEDULED, UNFINISHED, DrillEntry

DAY_MS: Final = 86_400_000
_NOT_ENDED: Final = frozenset({SCHEDULED, MISSED, UNFINISHED})
DrillKey = tuple[str, str, str]
"""Name, kind and flow."""


class DrillState(NamedTuple):
    """A drill as its history shows it; times in milliseconds since 1970."""

    name: str
    kind: str
    flow: str
    is_configured: bool
    """Whether a table ``[[drills]]`` is of it."""
    last_pass_ms: int | None = None
    """When the last drill that passed began; None: none did."""
    last_verdict: str = ""
    """Of the last drill that ended; empty: none did."""
    last_ms: int | None = None
    """When the last drill that ended began."""
    is_overdue: bool = False
    owing: tuple[str, ...] = ()
    """Ids of drills whose cleanup is owed."""


def drill_states(
    settings: Settings, drills: Iterable[DrillSettings], entries: Sequence[DrillEntry], now_ms: int
) -> list[DrillState]:
    """Return the state of each configured drill, then of each other one that owes its cleanup.

    Entries of another kind or flow are of another drill: a name may be used again.

    :param drills: the configured ones
    """
    settled: dict[DrillKey, DrillSettings] = {
        (drill.name, drill.kind, settings.one_flow(drill.flow).name): drill for drill in drills
    }
    by_drill: dict[DrillKey, list[DrillEntry]] = {key: [] for key in settled}
    for entry in sorted(entries, key=lambda entry: entry.began_ms):
        by_drill.setdefault((entry.name, entry.kind, entry.flow), []).append(entry)
    states = [_state(key, settled.get(key), known, now_ms) for key, known in by_drill.items()]
    return [state for state in states if state.is_configured or state.owing]


def _state(
    key: DrillKey, drill: DrillSettings | None, entries: Sequence[DrillEntry], now_ms: int
) -> DrillState:
    ended = [entry for entry in entries if entry.verdict not in _NOT_ENDED]
    passed = [entry.began_ms for entry in ended if entry.verdict == PASS]
    # Without a pass its age counts from its first entry. Without an entry no scheduler has seen the drill.
    since = (passed[-1:] or [entry.began_ms for entry in entries[:1]] or [0])[0]
    max_age_days = None if drill is None else drill.max_age_days
    return DrillState(
        *key,
        is_configured=drill is not None,
        last_pass_ms=passed[-1] if passed else None,
        last_verdict=ended[-1].verdict if ended else "",
        last_ms=ended[-1].began_ms if ended else None,
        is_overdue=max_age_days is not None and now_ms - since > max_age_days * DAY_MS,
        owing=tuple(entry.id for entry in entries if entry.cleanup_owed and not entry.is_running(now_ms)),
    )
