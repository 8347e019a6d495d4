"""The record of each drill on the target: its plan, its steps, and what it makes, written before it is made.

A drill that was killed owes its cleanup; its record alone is enough to pay it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
import json
from typing import Any, Final, NamedTuple

from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings
from drkit.control_key import signed
from drkit.drill.plan import DrillPlan, plan_from_json
from drkit.errors import Failed
from drkit.flow_state.creation import ensure_compacted
from drkit.flow_state.names import drills_topic
from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import Process
from drkit.flow_state.topic_clients import state_producer
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError
from drkit.kafka.reading.compacted import NewestValues, newest_values

SOURCE: Final = "source"
TARGET: Final = "target"
"""The sides of a drill."""
_WRITE_SECONDS: Final = 30.0


class MadeItem(NamedTuple):
    """A topic or a group that a drill makes."""

    side: str
    kind: str
    """``topic`` or ``group``."""
    name: str
    topic_id: str = ""
    """Empty: of a group, or of a topic that was not seen yet."""


class CleanupState(StrEnum):
    """Whether what a drill made is still there."""

    OWED = "owed"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class DrillRecord:
    """The record of one drill."""

    plan: DrillPlan
    made: tuple[MadeItem, ...] = ()
    steps: tuple[Mapping[str, Any], ...] = ()
    """The steps that ended, as plain data."""
    cleanup: CleanupState = CleanupState.OWED
    verdict: str = ""
    """Empty: the drill has not ended."""
    reasons: tuple[str, ...] = ()
    holder: Process | None = None
    """The process that runs the drill; None: unknown."""
    written_ms: int = 0

    def is_running(self, now_ms: int) -> bool:
        """Return whether the drill may be under way; on another machine until its time limit has passed."""
        if self.verdict:
            return False
        lives = None if self.holder is None else lives_here(self.holder)
        return now_ms - self.written_ms < self.plan.limits.seconds * 1000 if lives is None else lives

    def on(self, side: str, kind: str) -> list[MadeItem]:
        """Return the items of one kind that the drill made on one side."""
        return [item for item in self.made if (item.side, item.kind) == (side, kind)]

    def with_ids(self, side: str, ids: Mapping[str, str]) -> DrillRecord:
        """Return the record with the ids of topics that were not known yet.

        :param ids: name → topic id
        """
        known = tuple(
            item._replace(topic_id=ids[item.name])
            if (item.side, item.kind, item.topic_id) == (side, "topic", "") and item.name in ids
            else item
            for item in self.made
        )
        return replace(self, made=known)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {
            "plan": self.plan.to_json(),
            "made": [list(item) for item in self.made],
            "steps": list(self.steps),
            "cleanup": self.cleanup.value,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "holder": None if self.holder is None else asdict(self.holder),
            "written_ms": self.written_ms,
        }

    @classmethod
    def from_json(cls, data: Any) -> DrillRecord:
        """Return the record that :meth:`to_json` wrote.

        :raises ValueError: it is none
        """
        try:
            return cls(
                plan=plan_from_json(data["plan"]),
                made=tuple(MadeItem(*item) for item in data["made"]),
                steps=tuple(data["steps"]),
                cleanup=CleanupState(data["cleanup"]),
                verdict=str(data["verdict"]),
                reasons=tuple(data["reasons"]),
                holder=None if data["holder"] is None else Process(**data["holder"]),
                written_ms=int(data["written_ms"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the record of a drill: {error!r}") from error


class DrillRecords:
    """The compacted topic on the target with the records of a flow's drills.

    :param source: alias of production's source
    """

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = drills_topic(source, target.alias)
        self._target = target
        self._cluster = Cluster.connect(target)

    def load(self) -> dict[str, DrillRecord]:
        """Return the records by drill id, oldest first.

        :raises DrkitError: the topic cannot be read, or holds what this drkit does not understand
        """
        values = newest_values(self._cluster, [self.name], verified=True).get(self.name, NewestValues())
        try:
            return {k.decode(): DrillRecord.from_json(json.loads(v)) for k, v in sorted(values.items())}
        except ValueError as error:
            raise Failed(
                "the topic of drills holds a record that this drkit does not understand",
                where=f"{self.name} on {self._target.alias}",
                evidence=str(error),
                hint="use the drkit that wrote it, or a newer one",
            ) from error

    def ensure(self) -> None:
        """Create the topic if it is missing. Raises DrkitError."""
        ensure_compacted(self._cluster, self.name)

    def put(self, record: DrillRecord) -> None:
        """Write a record, durably.

        :raises Failed: it was not accepted
        """
        written = replace(record, written_ms=wall_ms())
        key, value = record.plan.id.encode(), json.dumps(written.to_json(), ensure_ascii=False).encode()
        errors: list[KafkaError | None] = []
        producer = state_producer(self._target)
        producer.produce(
            self.name,
            value,
            key,
            partition=0,
            headers=signed(self._target.control, self.name, key, value),
            on_delivery=lambda error, _: errors.append(error),
        )
        producer.flush(_WRITE_SECONDS)
        if errors != [None]:
            raise Failed(
                "the record of the drill cannot be written",
                where=f"{self.name} on {self._target.alias}",
                evidence=str(errors[0]) if errors else f"no answer in {_WRITE_SECONDS:.0f} s",
                hint="check in-sync replicas of the target and drkit's permission to write there",
            )


def owed(records: Iterable[DrillRecord]) -> list[DrillRecord]:
    """Return the drills that owe their cleanup."""
    return [record for record in records if record.cleanup is CleanupState.OWED]


def step_entry(step: str, found: Mapping[str, Any], began: float) -> dict[str, Any]:
    """Return a step that ended now as plain data.

    :param began: monotonic time
    """
    return {"step": step, "ended_ms": wall_ms(), "seconds": round(monotonic() - began, 3), **found}
