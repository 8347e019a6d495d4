"""The history of one scenario run: JSON lines that every process of the run appends to, read back as events.

One line is one event. Lines of several processes are ordered by their position in the file; `seconds` is the
monotonic clock of the machine, which all processes of a run share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
import json
import os
from pathlib import Path
import shlex
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, dataclass_transform

from drkit.clock import monotonic
from drkit.journal.machine import FAILOVER, RETURN, RunState, StepName
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
    """A client was sent SIGTERM; `kind` is that of :func:`drkit.exercise.clients.run_client`."""

    name: str
    kind: str


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


E = TypeVar("E", bound=Event)


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


Record = tuple[TopicPartition, str]
"""A record by its partition and its value, which no other record has."""
_EVERY_TOPIC: Final = "*"


def place_of(e: Acked | Read | Consumed) -> str:
    """Return where a record is, in words."""
    return f"{e.tp}@{e.offset} on {e.cluster}"


def choice(report: Mapping[str, Any] | None, kind: str, topic: str) -> str:
    """Return the disposition or the method in a return's request for a topic, or "" if it has none."""
    choices = _part(report or {}, "request").get(kind) or {}
    return str(choices.get(topic, choices.get(_EVERY_TOPIC, "")))


def _part(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a report; empty where it has none."""
    return report.get(name) or {}


class Failover(NamedTuple):
    """A failover that is done."""

    source: str
    target: str
    opened: int
    """Index of OPEN's result; the number of events if the history has none."""
    until: int
    """Index of the event with which the source was opened again; the number of events if it was not."""
    report: Mapping[str, Any]
    returned: Mapping[str, Any] | None
    """Report of the return that made the source the standby, or None if no return is done."""
    is_planned: bool
    is_fenced: bool
    loss: Mapping[str, Any]
    """The loss that it states."""
    groups: Mapping[str, Any]
    """Its groups, with their positions."""
    stated: frozenset[Record] = frozenset()
    """Acknowledged before OPEN, at or after the offset from which the loss is stated."""
    late: frozenset[Record] = frozenset()
    """Acknowledged by the source after OPEN."""

    @property
    def tail(self) -> frozenset[Record]:
        """The records that it left behind on its source."""
        return self.stated | self.late

    def disposition(self, record: Record) -> str:
        """Return the disposition of a record in the request of the return, or "" if it has none."""
        return choice(self.returned, "dispositions", record[0].topic)

    def replays(self, record: Record) -> bool:
        """Return whether its return appended a record of the tail to the new primary."""
        return (record in self.stated or record in self.late) and self.disposition(record) == "replay"

    def moves(self, topic: str) -> bool:
        """Return whether a topic is in its scope; a report without topics moves all."""
        return topic in (self.report.get("topics") or {topic})

    def copies_whole(self, topic: str) -> bool:
        """Return whether a return gives the source the same log of a topic as the target has."""
        return choice(self.returned, "methods", topic) not in {"trim", "keep"}

    def stated_position(self, group: str, tp: TopicPartition, side: int = 0) -> int | None:
        """Return a group's offset on the source (0) or the target (1), or None if the report has none."""
        position = _part(self.groups, "positions").get(group, {}).get(str(tp))
        return None if position is None or position[side] is None else int(position[side])

    def names_without_position(self, group: str, tp: TopicPartition | None = None) -> bool:
        """Return whether a group has no position by the report, in a partition or in any."""
        unavailable = _part(self.groups, "unavailable").get(group, {})
        is_outside = group in _part(_part(self.report, "outside"), "groups")
        return is_outside or (bool(unavailable) if tp is None else str(tp) in unavailable)


@dataclass(frozen=True)
class ScenarioHistory:
    """All events of a run in their order, and what is derived from them, each fact once. Pure."""

    events: Sequence[Event]

    def of(self, kind: type[E]) -> Iterator[E]:
        """Return the events of one kind."""
        return (event for event in self.events if isinstance(event, kind))

    def at(self, kind: type[E]) -> Iterator[tuple[int, E]]:
        """Return the events of one kind, each after its index in the history."""
        return ((i, event) for i, event in enumerate(self.events) if isinstance(event, kind))

    def last(self, kind: type[E]) -> E | None:
        """Return the newest event of one kind, or None."""
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)

    @cached_property
    def active(self) -> str:
        """The cluster that accepts writes at the end, or "" if the history has no end."""
        end = self.last(ScenarioEnded)
        return "" if end is None else end.active

    @cached_property
    def acked(self) -> dict[Record, tuple[int, Acked]]:
        """Acknowledged records, without those of aborted transactions, with the index of their event."""
        return {(e.tp, e.value): (i, e) for i, e in self.at(Acked) if e.transaction != "aborted"}

    def acked_at(self, cluster: str, record: Record) -> int | None:
        """Return the offset with which a cluster acknowledged a record, or None if it did not."""
        e = self.acked[record][1] if record in self.acked else None
        return e.offset if e is not None and e.cluster == cluster else None

    @cached_property
    def logs(self) -> dict[str, dict[TopicPartition, list[tuple[int, str]]]]:
        """The final log of each cluster's partitions: offsets and values, in order."""
        logs: dict[str, dict[TopicPartition, list[tuple[int, str]]]] = {PRIMARY: {}, STANDBY: {}}
        for e in self.of(Read):
            logs[e.cluster].setdefault(e.tp, []).append((e.offset, e.value))
        return {c: {tp: sorted(log) for tp, log in sorted(logs[c].items())} for c in logs} | {"": {}}

    @cached_property
    def offsets(self) -> dict[str, dict[Record, int]]:
        """Offsets in the final logs."""
        return {c: {(tp, v): o for tp, log in logs.items() for o, v in log} for c, logs in self.logs.items()}

    @cached_property
    def log_ends(self) -> dict[tuple[str, TopicPartition], LogEnd]:
        """The final logs that were read to their end."""
        return {(e.cluster, e.tp): e for e in self.of(LogEnd)}

    @cached_property
    def positions(self) -> dict[tuple[str, str, TopicPartition], FinalPosition]:
        """Final positions by cluster, group and partition."""
        return {(e.cluster, e.group, e.tp): e for e in self.of(FinalPosition)}

    @cached_property
    def last_work(self) -> dict[tuple[str, str], int]:
        """Index of the last event of a group on a cluster, by group and cluster."""
        work = ((i, e) for i, e in enumerate(self.events) if isinstance(e, Consumed | OffsetCommitted))
        return {(e.group, e.cluster): i for i, e in work}

    @cached_property
    def opened(self) -> int:
        """Index of the event with which the active side was opened; −1: no failover is done."""
        return self.failovers[-1].opened if self.failovers else -1

    @cached_property
    def committed(self) -> dict[tuple[str, TopicPartition], int]:
        """The last offsets that each group committed on the active side since it was opened."""
        since = (e for i, e in self.at(OffsetCommitted) if e.cluster == self.active and i > self.opened)
        return {(e.group, e.tp): e.offset for e in since}

    @cached_property
    def given(self) -> set[tuple[str, Record]]:
        """Every record that a group was given, on any cluster."""
        return {(e.group, (e.tp, e.value)) for e in self.of(Consumed)}

    @cached_property
    def failovers(self) -> list[Failover]:
        """Failovers that are done, in their order."""
        first_entries, opened = dict[str, int](), dict[str, int]()
        for i, e in self.at(JournalEntered):
            first_entries.setdefault(e.run, i)
            if (e.step, e.kind, e.effect) == (StepName.OPEN, "result", ""):
                opened.setdefault(e.run, i)
        done = {e.run: e for e in self.of(RunReported) if e.state == RunState.DONE}
        never, failovers = len(self.events), list[Failover]()
        for run in sorted(done.values(), key=lambda e: first_entries.get(e.run, never)):
            if run.table == RETURN.name and failovers:
                failovers[-1] = failovers[-1]._replace(returned=run.report)
            elif run.table == FAILOVER.name:
                failovers.append(_failover(run, opened.get(run.run, never), never))
        for i, f in enumerate(failovers):
            returns = (later.opened for later in failovers[i + 1 :] if later.target == f.source)
            until, acked = next(returns, never), self.acked.items()
            late = (record for record, (at, e) in acked if e.cluster == f.source and f.opened < at < until)
            failovers[i] = f._replace(until=until, stated=self._stated(f), late=frozenset(late))
        return failovers

    def _stated(self, f: Failover) -> frozenset[Record]:
        partitions = () if f.is_planned else f.loss.get("partitions") or ()
        lost_from = {TopicPartition(p["topic"], p["partition"]): p.get("lost_from") for p in partitions}
        stated = set()
        for record, (index, e) in self.acked.items():
            first, offset = lost_from.get(e.tp), e.offset if e.cluster == f.source else None
            if offset is None and f.returned is None:  # a return may have emptied the log: other offsets
                offset = self.offsets[f.source].get(record)
            if index < f.opened and first is not None and offset is not None and offset >= first:
                stated.add(record)
        return frozenset(stated)

    @cached_property
    def replayed(self) -> frozenset[Record]:
        """Records of a tail that a return appended to the new primary, after what clients wrote there."""
        return frozenset(record for f in self.failovers for record in f.tail if f.replays(record))

    @cached_property
    def divergent(self) -> list[tuple[TopicPartition, int, int]]:
        """Ranges of offsets that the answers of ``drkit divergence`` name."""
        answers = [e.answer for e in self.of(CommandEnded) if "divergence" in e.words]
        named = [p for a in answers for p in (*a.get("partitions", ()), *a.get("uncopied", ()))]
        ended = (p for p in named if p.get("end") is not None)
        return [(TopicPartition(p["topic"], p["partition"]), p["lost_from"], p["end"]) for p in ended]

    def is_divergent(self, acked: Acked) -> bool:
        """Return whether ``drkit divergence`` names a record of the old primary."""
        return any(tp == acked.tp and first <= acked.offset < end for tp, first, end in self.divergent)


def _failover(run: RunReported, opened: int, never: int) -> Failover:
    return Failover(
        run.source,
        OTHER[run.source],
        opened,
        never,
        run.report,
        returned=None,
        is_planned=bool(_part(run.report, "request").get("planned")),
        is_fenced=bool(_part(run.report, "fence").get("proven")),
        loss=_part(run.report, "loss"),
        groups=_part(run.report, "groups"),
    )
