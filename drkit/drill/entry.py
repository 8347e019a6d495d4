"""The entry of a drill in the history: how it ended, and what it makes, written before that is made. Pure.

A drill that was killed owes its cleanup; its entry alone is enough to pay it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from drkit.drill.plan import DRILL_ID, DrillPlan
from drkit.flow_state.names import is_of_drill
from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import Process

SOURCE: Final = "source"
TARGET: Final = "target"
"""The sides of a drill."""
SCHEDULED, MISSED, UNFINISHED = "scheduled", "missed", "unfinished"
"""Verdicts without a report. ``scheduled``: its scheduler first knew the drill then. ``unfinished``: it is
running, or its process was killed."""


class MadeItem(NamedTuple):
    """A topic or a group that a drill makes."""

    side: str
    kind: str
    """``topic`` or ``group``."""
    name: str
    topic_id: str = ""
    """Empty: of a group, or of a topic that was not seen yet."""


class DrillEntry(BaseModel):
    """A drill, or due times at which none was run; milliseconds since 1970."""

    model_config = ConfigDict(frozen=True)

    id: str = Field("", pattern=f"^({DRILL_ID.pattern})?$")
    """Empty: it was not run."""
    name: str = Field(pattern=r"^[a-z0-9-]{1,40}$")
    kind: str
    flow: str
    verdict: str
    began_ms: int
    """When it began; of due times at which none was run, the first."""
    seconds: float | None = None
    due_ms: int | None = None
    """The due time of its schedule, or the last of several; None: a person started it."""
    hash: str = ""
    """Of its report."""
    reason: str = ""
    limit_seconds: float = 0.0
    """Its longest duration."""
    holder: Process | None = None
    """The process that runs it."""
    made: tuple[MadeItem, ...] = ()
    cleanup_owed: bool = False
    """Whether what it made may still be there."""
    written_ms: int = 0

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
            id=plan.id,
            name=plan.name,
            kind=plan.kind,
            flow=plan.flow,
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
        """Return the entry with the ids of topics that were not known yet.

        :param ids: name → topic id
        """
        known = tuple(
            item._replace(topic_id=ids[item.name])
            if (item.side, item.kind, item.topic_id) == (side, "topic", "") and item.name in ids
            else item
            for item in self.made
        )
        return self.model_copy(update={"made": known})
