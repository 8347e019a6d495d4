"""The entry of a drill in the history, and what follows from entries: states of drills, notices. Pure.

An entry names what the drill makes, before that is made: for the cleanup of a drill that was killed its entry
alone is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from drkit.config import Settings
from drkit.config.tables.drills import DrillSettings
from drkit.counted import utc
from drkit.drill.plan import DRILL_ID, DrillPlan
from drkit.exercise.verdict import PASS
from drkit.flow_state.names import is_of_drill
from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import Process
from drkit.next_command import typed

SOURCE: Final = "source"
TARGET: Final = "target"
"""The sides of a drill."""
SCHEDULED, MISSED, UNFINISHED = "scheduled", "missed", "unfinished"
"""Verdicts without a report. ``scheduled``: its scheduler first knew the drill then. ``unfinished``: it is
running, or its process was killed."""
_NOT_ENDED: Final = frozenset({SCHEDULED, MISSED, UNFINISHED})
DAY_MS: Final = 86_400_000
_REASONS: Final = 10
"""Reasons that a notice names."""
DrillKey = tuple[str, str, str]
"""Name, kind and flow."""
WallMs = Annotated[int, Field(ge=0, le=253_402_300_799_999)]
"""Milliseconds since 1970, up to the year 9999: later times are no dates in Python."""


class MadeItem(NamedTuple):
    """A topic or a group that a drill makes."""

    side: str
    kind: str
    """``topic`` or ``group``."""
    name: str
    topic_id: str = ""
    """Empty: of a group, or of a topic that was not seen yet."""


class DrillEntry(BaseModel):
    """A drill, or due times at which none was run."""

    model_config = ConfigDict(frozen=True)

    id: str = Field("", pattern=f"^({DRILL_ID.pattern})?$")
    """Empty: it was not run."""
    name: str = Field(pattern=r"^[a-z0-9-]{1,40}$")
    kind: str
    flow: str
    verdict: str
    began_ms: WallMs
    """Its begin, or the first due time at which none was run."""
    seconds: float | None = None
    due_ms: WallMs | None = None
    """The due time of its schedule, or the last of several, or None if a person started it."""
    hash: str = ""
    """The hash of its report."""
    reason: str = ""
    limit_seconds: float = 0.0
    """Its longest duration."""
    holder: Process | None = None
    """The process that runs it."""
    made: tuple[MadeItem, ...] = ()
    cleanup_owed: bool = False
    """True if what it made may still be there."""
    written_ms: WallMs = 0

    @model_validator(mode="after")
    def _names_its_own(self) -> Self:
        """Refuse an entry with other names than those of drills: what it names is deleted."""
        foreign = [item.name for item in self.made if not is_of_drill(self.id, item.name)]
        if foreign:
            raise ValueError(f"a drill does not make {foreign[0]}")
        return self

    @classmethod
    def of(cls, plan: DrillPlan, began_ms: int, due: datetime | None, holder: Process) -> DrillEntry:
        """Return the entry of a drill that begins."""
        return cls(
            **{name: getattr(plan, name) for name in ("id", "name", "kind", "flow")},
            verdict=UNFINISHED,
            began_ms=began_ms,
            due_ms=None if due is None else round(due.timestamp() * 1000),
            limit_seconds=plan.limits.seconds + plan.hold_minutes * 60,
            holder=holder,
        )

    @property
    def key(self) -> str:
        """Its unique name in the history."""
        return self.id or f"{self.name}.{self.due_ms}"

    @property
    def runs_as(self) -> str:
        """The process that runs it, in words; empty for a due time at which none was run."""
        return "" if self.holder is None else f"process {self.holder.pid} on {self.holder.host}"

    def is_running(self, now_ms: int) -> bool:
        """Return whether the drill may be under way; on another machine until its time limit has passed."""
        if self.verdict != UNFINISHED:
            return False
        lives = None if self.holder is None else lives_here(self.holder)
        return now_ms - self.written_ms < self.limit_seconds * 1000 if lives is None else lives

    def on(self, side: str, kind: str) -> list[MadeItem]:
        """Return the items of one kind that the drill made on one side."""
        return [item for item in self.made if (item.side, item.kind) == (side, kind)]

    def with_ids(self, side: str, ids: Mapping[str, str]) -> DrillEntry:
        """Return the entry with the ids of topics that were not known yet, by their names."""
        unseen = (item for item in self.on(side, "topic") if not item.topic_id)
        seen = {item: item._replace(topic_id=ids.get(item.name, "")) for item in unseen}
        return self.model_copy(update={"made": tuple(seen.get(item, item) for item in self.made)})


class DrillState(NamedTuple):
    """A drill as its history shows it; times in milliseconds since 1970."""

    name: str
    kind: str
    flow: str
    is_configured: bool
    """True if it has a table ``[[drills]]``."""
    last_pass_ms: int | None = None
    """Begin of the last drill that passed, or None before the first."""
    last_verdict: str = ""
    """Verdict of the last drill that ended, or "" before the first."""
    last_ms: int | None = None
    """Begin of the last drill that ended."""
    is_overdue: bool = False
    owing: tuple[str, ...] = ()
    """Ids of drills with a pending cleanup."""


def drill_states(
    settings: Settings, drills: Iterable[DrillSettings], entries: Sequence[DrillEntry], now_ms: int
) -> list[DrillState]:
    """Return the state of each configured drill, then of each other one with a pending cleanup.

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


def ended_notice(
    drill: DrillPlan | DrillEntry, verdict: str, reasons: Sequence[str], options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the notice of a drill that ended.

    :param options: of the running command, such as its configuration file
    """
    command = ("report", drill.id) if drill.id else ("run", drill.name)
    next_command = typed("drkit", "drill", *command, *options)
    more = [f"and {len(reasons) - _REASONS} more"] if len(reasons) > _REASONS else []
    shown = [*reasons[:_REASONS], *more]
    first = f"drill {drill.name}, {drill.kind} of {drill.flow}: {verdict}"
    text = "\n".join([first, *(f"- {reason}" for reason in shown), f"next: {next_command}"])
    facts = {"flow": drill.flow, "drill": drill.name, "kind": drill.kind, "id": drill.id, "verdict": verdict}
    return {**facts, "reasons": shown, "command": next_command, "text": text}


def not_run_notice(entry: DrillEntry, options: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the notice of due times at which a drill was not run, or None if it needs no notice."""
    reason = f"missed since {utc(entry.began_ms)}: no scheduler ran, or it was busy"
    return None if entry.verdict == SCHEDULED else ended_notice(entry, entry.verdict, [reason], options)
