"""The history of one scenario run: JSON lines that every process of the run appends to, read back as events.

One line is one event. Lines of several processes are ordered by their position in the file; `seconds` is the
monotonic clock of the machine, which all processes of a run share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
import json
import os
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar, dataclass_transform

from drkit.clock import monotonic
from drkit.model import TopicPartition

PRIMARY: Final = "primary"
STANDBY: Final = "standby"
"""The clusters of a pair, by the names that they keep through every failover and return."""
OTHER: Final = {PRIMARY: STANDBY, STANDBY: PRIMARY}
_KINDS: Final[dict[str, type[Event]]] = {}
"""The classes of events, by the `event` of a line."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Event:
    """One event; `seconds` and `by` are set by the process that records it. Each kind is a dataclass."""

    KIND: ClassVar[str]
    seconds: float = field(default=0.0, kw_only=True)
    by: str = field(default="", kw_only=True)
    """The client, replicator or stage that recorded it."""

    def __init_subclass__(cls, kind: str = "") -> None:
        dataclass(frozen=True)(cls)
        if kind:
            cls.KIND, _KINDS[kind] = kind, cls


class _AtPartition(Event):
    cluster: str
    topic: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        """The topic and partition."""
        return TopicPartition(self.topic, self.partition)


class Acked(_AtPartition, kind="acked"):
    """A producer's record was acknowledged; `sent` is when it was sent, on the clock of `seconds`."""

    offset: int
    value: str
    transaction: str = ""
    """Empty, committed or aborted."""
    sent: float | None = None


class NotAcked(Event, kind="not_acked"):
    """A record was refused, or its fate is unknown: a timeout or a lost connection is never a refusal."""

    cluster: str
    topic: str
    value: str
    error: str
    is_refused: bool


class Consumed(_AtPartition, kind="consumed"):
    """A member of a group was given a record."""

    group: str
    offset: int
    value: str


class OffsetCommitted(_AtPartition, kind="committed"):
    """A cluster confirmed a commit of a group: the offset of the next record to read."""

    group: str
    offset: int


class JournalEntered(Event, kind="journal"):
    """An orchestrator wrote an entry of its journal and waits for leave; `table` is failover or return."""

    table: str
    run: str
    step: str
    kind: str
    effect: str


class FaultBegan(Event, kind="fault_began"):
    """A fault is in force, which was verified; one that `lasts` stays so until :class:`FaultEnded`."""

    fault: str
    """For example ``kill primary``."""
    evidence: str
    lasts: bool = False


class FaultEnded(Event, kind="fault_ended"):
    """A fault is no longer in force."""

    fault: str


class CommandEnded(Event, kind="command"):
    """A command of drkit ended; `code` is None if its process was killed."""

    words: list[str]
    code: int | None
    expected: list[int | None]
    error: dict[str, Any] = field(default_factory=dict)
    """What it refused, as `--json` prints it."""
    answer: dict[str, Any] = field(default_factory=dict)
    """What it answered, as `--json` prints it."""


class RunReported(Event, kind="run"):
    """The report of a run, made from its journal, and where its entries break its table."""

    table: str
    run: str
    state: str
    source: str
    """The cluster that clients leave: the old primary of a failover."""
    report: dict[str, Any]
    entries: int
    violations: list[str]


class Read(_AtPartition, kind="read"):
    """A committed record of the final log of a cluster."""

    offset: int
    value: str


class LogEnd(_AtPartition, kind="log_end"):
    """The final log of a partition was read from `start` to `end`, or only up to `read_to`."""

    start: int
    end: int
    read_to: int


class FinalPosition(_AtPartition, kind="position"):
    """The final committed offset of a group on a cluster."""

    group: str
    offset: int


class Probed(Event, kind="probe"):
    """A record was sent to a topic of a cluster when all was over; whether it was accepted."""

    cluster: str
    topic: str
    is_accepted: bool
    error: str = ""


class Observed(Event, kind="observed"):
    """A verdict of detection: UP, SUSPECT, HOLD, LOST, with its reason."""

    verdict: str
    reason: str


class LookFailed(Event, kind="look_failed"):
    """Something that the checks need could not be read."""

    what: str
    error: str


class ScenarioEnded(Event, kind="end"):
    """The facts at the end: the cluster that should take writes, and what is left behind."""

    active: str
    left: list[str]


_E = TypeVar("_E", bound=Event)


class Recorder:
    """Appends events of one process to the file of a run; lines of several processes never mix.

    :param by: the name of the process in the history
    """

    def __init__(self, path: Path, by: str) -> None:
        self._by = by
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def record(self, event: Event) -> None:
        """Append an event. Raises OSError on a full disk."""
        line = {"event": event.KIND, **asdict(event), "seconds": round(monotonic(), 6), "by": self._by}
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        while data:  # a full disk may take a part of a line
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass(frozen=True)
class ScenarioHistory:
    """All events of a run in their order."""

    events: Sequence[Event]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the events of a file; see :func:`read_events`."""
        return cls(read_events(path, 0)[0])

    def of(self, kind: type[_E]) -> Iterator[_E]:
        """Return the events of one kind."""
        return (event for event in self.events if isinstance(event, kind))

    def at(self, kind: type[_E]) -> Iterator[tuple[int, _E]]:
        """Return the events of one kind, each after its index in the history."""
        return ((i, event) for i, event in enumerate(self.events) if isinstance(event, kind))

    def last(self, kind: type[_E]) -> _E | None:
        """Return the newest event of one kind, or None."""
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)


def read_events(path: Path, position: int) -> tuple[list[Event], int]:
    """Return the events of a file from a position in bytes on, and the position after the last whole line.

    A last line that a killed process left incomplete is left out. Raises ValueError for any other line.
    """
    with path.open("rb") as file:
        file.seek(position)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    return [_event(line) for line in data[:whole].split(b"\n") if line], position + whole


def _event(line: bytes) -> Event:
    fields = json.loads(line)
    kind = _KINDS.get(fields.pop("event", ""))
    if kind is None:
        raise ValueError(f"not an event of a chaos run: {line[:100]!r}")
    return kind(**fields)
