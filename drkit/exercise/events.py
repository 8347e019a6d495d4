"""The events of a scenario run: JSON lines in one file, to which every process of the run appends.

One line is one event. Lines of several processes are ordered by their position in the file; `seconds` is the
monotonic clock of the machine, which all processes of a run share.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
import json
import os
from pathlib import Path
import shlex
from typing import Any, ClassVar, Final, dataclass_transform

from drkit.clock import monotonic
from drkit.model import TopicPartition

PRIMARY: Final = "primary"
STANDBY: Final = "standby"
"""The clusters of a pair, by the names that they keep through every failover and return."""
HISTORY: Final = "history.jsonl"
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


class _AtOffset(_AtPartition):
    offset: int
    value: str
    envelope: str = field(default="", kw_only=True)
    """Digest of its key, headers and timestamp; "" if it is not known."""


class Acked(_AtOffset, kind="acked"):
    """A producer's record was acknowledged; `sent` is when it was sent, on the clock of `seconds`."""

    transaction: str = ""
    """Empty, committed or aborted."""
    sent: float | None = None

    def is_sent_after(self, event: Event) -> bool:
        """Return whether it was sent after an event; without its time, as it was acknowledged after it."""
        return self.sent is None or self.sent > event.seconds


class NotAcked(Event, kind="not_acked"):
    """A record was refused, or its fate is unknown: a timeout or a lost connection is never a refusal."""

    cluster: str
    topic: str
    value: str
    error: str
    is_refused: bool


class Consumed(_AtOffset, kind="consumed"):
    """A member of a group was given a record."""

    group: str


class OffsetCommitted(_AtPartition, kind="committed"):
    """A cluster confirmed a commit of a group: the offset of the next record to read."""

    group: str
    offset: int


class ClientStopped(Event, kind="client_stopped"):
    """A client was stopped; `kind` is that of :func:`drkit.exercise.clients.run_client`."""

    name: str
    kind: str
    was_killed: bool = False
    """It did not end in time, so what became of its last records is unknown."""


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
    expected: list[int | str | None]
    """Exit codes, or codes of errors such as ``rpo_exceeded``."""
    error: dict[str, Any] = field(default_factory=dict)
    """The error of `--json`."""
    answer: dict[str, Any] = field(default_factory=dict)
    """The answer of `--json`."""

    began: float | None = None
    """When it was typed, on the clock of `seconds`."""

    @cached_property
    def divergent(self) -> list[tuple[TopicPartition, int, int]]:
        """Ranges of offsets on the old primary that it names, if it is ``drkit divergence``."""
        answer = self.answer if "divergence" in self.words else {}
        named = (*answer.get("partitions", ()), *answer.get("uncopied", ()))
        ended = (p for p in named if p.get("end") is not None)
        return [(TopicPartition(p["topic"], p["partition"]), p["lost_from"], p["end"]) for p in ended]

    def names(self, acked: Acked) -> bool:
        """Return whether it is a ``drkit divergence`` that names a record."""
        return any(tp == acked.tp and first <= acked.offset < end for tp, first, end in self.divergent)

    @property
    def error_code(self) -> str:
        """The code of its error, or "" if it has none."""
        return str(self.error.get("code", ""))

    @property
    def typed(self) -> str:
        """The command line."""
        return shlex.join(("drkit", *self.words))

    @property
    def is_expected(self) -> bool:
        """True if its error is expected, with the exit code of that, or its exit code, with a reason."""
        has_reason = self.answer or (self.error_code and "unexpected" not in self.error_code)
        is_named = self.error_code in self.expected and self.code == self.error.get("exit_code", self.code)
        return is_named or (self.code in self.expected and bool(self.code is None or has_reason))

    @property
    def outcome(self) -> str:
        """The exit code in words, with the code of the error."""
        error = f", {self.error_code}" if self.error_code else ""
        return "killed" if self.code is None else f"exit code {self.code}{error}"


class RunReported(Event, kind="run"):
    """The report of a run, made from its journal, and the entries of that as JSON."""

    table: str
    run: str
    state: str
    source: str
    """The cluster that clients leave: the old primary of a failover."""
    report: dict[str, Any]
    entries: list[str]


class Read(_AtOffset, kind="read"):
    """A committed record of the final log of a cluster."""


class ExportRead(_AtOffset, kind="exported"):
    """A record in the export of a return."""


class LogEnd(_AtPartition, kind="log_end"):
    """The final log of a partition was read from `start` to `end`."""

    start: int
    end: int


class CopyEnded(Event, kind="copy_ended"):
    """A task of a replicator ended; `was_fenced` if a fence refused what it appended."""

    flow: str
    ended: str
    stopped: dict[str, str]
    """Each partition without progress, with the reason."""
    was_fenced: bool


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


def read_events(path: Path, position: int) -> tuple[list[Event], int]:
    """Return the events of a file from a position in bytes on, and the position after the last whole line.

    A last line that a killed process left incomplete is left out. Any other line that is not an event is a
    failed look: on a full disk a line may be cut off, and the next process continues it.
    """
    with path.open("rb") as file:
        file.seek(position)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    return [_event(line) for line in data[:whole].splitlines()], position + whole


def _event(line: bytes) -> Event:
    try:
        fields = json.loads(line)
        return _KINDS[fields.pop("event")](**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return LookFailed("history", f"not an event: {line[:60].decode(errors='replace')}")
