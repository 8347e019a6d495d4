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
from typing import Any, ClassVar, Final, Self, TypeVar

from drkit.clock import monotonic
from drkit.model import TopicPartition

PRIMARY: Final = "primary"
STANDBY: Final = "standby"
"""The clusters of a pair, by the names that they keep through every failover and return."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `seconds` and `by` are set by the process that records it."""

    KIND: ClassVar[str] = ""
    seconds: float = field(default=0.0, kw_only=True)
    by: str = field(default="", kw_only=True)
    """The client, replicator or stage that recorded it."""


@dataclass(frozen=True, slots=True)
class _AtPartition(Event):
    cluster: str
    topic: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        """The topic and partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Acked(_AtPartition):
    """A producer's record was acknowledged; `sent` is when it was sent, on the clock of `seconds`."""

    KIND = "acked"
    offset: int
    value: str
    transaction: str = ""
    """Empty, committed or aborted."""
    sent: float | None = None


@dataclass(frozen=True, slots=True)
class NotAcked(Event):
    """A record was refused, or its fate is unknown: a timeout or a lost connection is never a refusal."""

    KIND = "not_acked"
    cluster: str
    topic: str
    value: str
    error: str
    is_refused: bool


@dataclass(frozen=True, slots=True)
class Consumed(_AtPartition):
    """A member of a group was given a record."""

    KIND = "consumed"
    group: str
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class OffsetCommitted(_AtPartition):
    """A cluster confirmed a commit of a group: the offset of the next record to read."""

    KIND = "committed"
    group: str
    offset: int


@dataclass(frozen=True, slots=True)
class JournalEntered(Event):
    """An orchestrator wrote an entry of its journal and waits for leave; `table` is failover or return."""

    KIND = "journal"
    table: str
    run: str
    step: str
    kind: str
    effect: str


@dataclass(frozen=True, slots=True)
class FaultBegan(Event):
    """A fault is in force, which was verified; one that `lasts` stays so until :class:`FaultEnded`."""

    KIND = "fault_began"
    fault: str
    """For example ``kill primary``."""
    evidence: str
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class FaultEnded(Event):
    """A fault is no longer in force."""

    KIND = "fault_ended"
    fault: str


@dataclass(frozen=True, slots=True)
class CommandEnded(Event):
    """A command of drkit ended; `code` is None if its process was killed."""

    KIND = "command"
    words: list[str]
    code: int | None
    expected: list[int | None]
    error: dict[str, Any] = field(default_factory=dict)
    """What it refused, as `--json` prints it."""
    answer: dict[str, Any] = field(default_factory=dict)
    """What it answered, as `--json` prints it."""


@dataclass(frozen=True, slots=True)
class RunReported(Event):
    """The report of a run, made from its journal, and where its entries break its table."""

    KIND = "run"
    table: str
    run: str
    state: str
    source: str
    """The cluster that clients leave: the old primary of a failover."""
    report: dict[str, Any]
    entries: int
    violations: list[str]


@dataclass(frozen=True, slots=True)
class Read(_AtPartition):
    """A committed record of the final log of a cluster."""

    KIND = "read"
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class LogEnd(_AtPartition):
    """The final log of a partition was read from `start` to `end`, or only up to `read_to`."""

    KIND = "log_end"
    start: int
    end: int
    read_to: int


@dataclass(frozen=True, slots=True)
class FinalPosition(_AtPartition):
    """The final committed offset of a group on a cluster."""

    KIND = "position"
    group: str
    offset: int


@dataclass(frozen=True, slots=True)
class Probed(Event):
    """A record was sent to a topic of a cluster when all was over; whether it was accepted."""

    KIND = "probe"
    cluster: str
    topic: str
    is_accepted: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class Observed(Event):
    """A verdict of detection: UP, SUSPECT, HOLD, LOST, with its reason."""

    KIND = "observed"
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class LookFailed(Event):
    """Something that the checks need could not be read."""

    KIND = "look_failed"
    what: str
    error: str


@dataclass(frozen=True, slots=True)
class ScenarioEnded(Event):
    """The facts at the end: the cluster that should take writes, and what is left behind."""

    KIND = "end"
    active: str
    left: list[str]


_KINDS: Final[dict[str, type[Event]]] = {
    kind.KIND: kind
    for kind in (
        Acked,
        NotAcked,
        Consumed,
        OffsetCommitted,
        JournalEntered,
        FaultBegan,
        FaultEnded,
        CommandEnded,
        RunReported,
        Read,
        LogEnd,
        FinalPosition,
        Probed,
        Observed,
        LookFailed,
        ScenarioEnded,
    )
}
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
