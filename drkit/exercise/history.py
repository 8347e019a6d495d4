"""The history of one scenario run: its events in their order, and what is derived from them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from drkit.exercise.events import (
    OTHER,
    PRIMARY,
    STANDBY,
    Acked,
    CommandEnded,
    Consumed,
    Event,
    FaultBegan,
    FaultEnded,
    FinalPosition,
    JournalEntered,
    LogEnd,
    OffsetCommitted,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.journal.machine import FAILOVER, RETURN, RunState, StepName
from drkit.model import TopicPartition

E = TypeVar("E", bound=Event)
Record = tuple[TopicPartition, str]
"""A record by its partition and its value, which no other record has."""
_EVERY_TOPIC: Final = "*"
OLDER_DISK: Final = "age "
"""Prefix of the fault with which a cluster gets an older disk; its target follows."""


def place_of(e: Acked | Read | Consumed) -> str:
    """Return where a record is, in words."""
    return f"{e.tp}@{e.offset} on {e.cluster}"


def choice(report: Mapping[str, Any] | None, kind: str, topic: str) -> str:
    """Return the disposition or the method in a return's request for a topic, or "" if it has none."""
    choices = _part(report or {}, "request").get(kind) or {}
    return str(choices.get(topic, choices.get(_EVERY_TOPIC, "")))


def _part(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
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

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The stated positions of groups: offsets on the source, and on the target."""
        return [(p[0], p[1]) for tps in _part(self.groups, "positions").values() for p in tps.values()]

    def is_excused(self, group: str) -> bool:
        """Return whether the report states that a group has no position, kept its own, or repeats records."""
        named = group in (self.groups.get("repeats") or {}) or group in self.groups.get("kept", ())
        return named or self.names_without_position(group)

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

    @property
    def is_copied(self) -> bool:
        """True if the other side is a standby: no failover is done, or its source has returned."""
        return not self.failovers or self.failovers[-1].returned is not None

    def is_divergent(self, acked: Acked) -> bool:
        """Return whether ``drkit divergence`` names a record of the old primary."""
        return any(e.names(acked) for e in self.of(CommandEnded))

    @cached_property
    def acked(self) -> dict[Record, tuple[int, Acked]]:
        """Acknowledged records, without those of aborted transactions, with the index of their event."""
        return {(e.tp, e.value): (i, e) for i, e in self.at(Acked) if e.transaction != "aborted"}

    def own_offset(self, cluster: str, record: Record, *, is_whole: bool = True) -> int | None:
        """Return the offset with which a cluster acknowledged a record, or has it if its log is whole."""
        e = self.acked[record][1] if record in self.acked else None
        logged = self.offsets[cluster].get(record) if is_whole else None
        return e.offset if e is not None and e.cluster == cluster else logged

    @cached_property
    def aged(self) -> frozenset[str]:
        """The clusters that got an older disk, which lacks records."""
        faults = (e.fault for e in self.of(FaultBegan) if e.fault.startswith(OLDER_DISK))
        return frozenset(fault.removeprefix(OLDER_DISK) for fault in faults)

    @cached_property
    def taken_back(self) -> frozenset[Record]:
        """Records of committed transactions that Kafka itself took back: see docs/internal/upstream.md.

        Their own cluster was killed before their producer's next transaction was decided. Its final log has
        nothing of the transaction in the partition, and no reader got any of its records. A log that an older
        disk or a return has changed proves nothing.
        """
        changed = self.aged | {e.source for e in self.of(RunReported) if e.table == RETURN.name}
        logs = [log for log in self.log_ends.values() if log.cluster not in changed]
        empty = {(log.cluster, log.tp, offset) for log in logs for offset in range(log.start, log.end)}
        empty -= {(e.cluster, e.tp, e.offset) for e in self.of(Read)}
        seen = {(e.tp, e.value) for e in self.events if isinstance(e, Read | Consumed)}
        transactions: dict[tuple[str, TopicPartition, float | None], set[Record]] = defaultdict(set)
        retained = set()
        for record, (index, e) in self.acked.items():
            if e.transaction == "committed":
                transactions[transaction := (e.by, e.tp, e.sent)].add(record)
                is_gone = (e.cluster, e.tp, e.offset) in empty and record not in seen
                retained |= set() if is_gone and self.was_undone(index, e) else {transaction}
        return frozenset(record for each in transactions.keys() - retained for record in transactions[each])

    def was_undone(self, index: int, e: Acked) -> bool:
        """Return whether its cluster was killed before its producer's next transaction was decided.

        It was started again since. A producer has one transaction at a time whose markers may be missing.
        """
        after = (i for i, other in self.at(Acked) if i > index and other.by == e.by and other.sent != e.sent)
        decided = next(after, len(self.events))
        began: dict[str, int] = {}
        for i, other in enumerate(self.events):
            if isinstance(other, FaultBegan):
                began[other.fault] = i
            elif isinstance(other, FaultEnded) and i > index and began.get(other.fault, decided) < decided:
                verb, cluster, *_ = *other.fault.split(" "), ""
                if cluster == e.cluster and verb in {"kill", "fill", "save"}:
                    return True
        return False

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
            until = next(returns, never)
            own = (r for r, (at, e) in self.acked.items() if e.cluster == f.source and at < until)
            late = frozenset(record for record in own if self._is_after_open(f, record))
            failovers[i] = f._replace(until=until, stated=self._stated(f), late=late)
        return failovers

    def _is_after_open(self, f: Failover, record: Record) -> bool:
        index, e = self.acked[record]
        return index > f.opened and e.is_sent_after(self.events[f.opened])

    def _stated(self, f: Failover) -> frozenset[Record]:
        partitions = () if f.is_planned else f.loss.get("partitions") or ()
        lost_from = {TopicPartition(p["topic"], p["partition"]): p.get("lost_from") for p in partitions}
        stated = set()
        for record in self.acked:
            # A return may have emptied the log: then its offsets are others.
            offset = self.own_offset(f.source, record, is_whole=f.returned is None)
            first, is_before = lost_from.get(record[0]), not self._is_after_open(f, record)
            if is_before and first is not None and offset is not None and offset >= first:
                stated.add(record)
        return frozenset(stated)

    @cached_property
    def replayed(self) -> frozenset[Record]:
        """Records of a tail that a return appended to the new primary, after what clients wrote there."""
        return frozenset(record for f in self.failovers for record in f.tail if f.replays(record))


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
