"""The report of ``drkit verify``: the results of all ranges as one verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

from drkit.counted import counted
from drkit.verify.compare import Counts, Difference, DifferenceKind
from drkit.verify.ranges import PartitionView
from drkit.verify.task import MOST, RangeResult

_ALWAYS = frozenset({"equal", "differences_total", "not_yet_copied_offsets"})


class VerifyVerdict(StrEnum):
    """The answer in one word."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"

    @property
    def exit_code(self) -> int:
        """Of the command."""
        return {VerifyVerdict.EQUAL: 0, VerifyVerdict.DIFFERENT: 1, VerifyVerdict.UNDECIDED: 3}[self]


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition, compared from end to end."""

    topic: str
    partition: int
    counts: Counts
    findings: list[Difference]
    undecided: str
    waiting: int
    """Number of source offsets from the first record not copied yet; 0 if none waits."""
    taken_over: OldPart | None = None


@dataclass(frozen=True, slots=True)
class OldPart:
    """The part of a partition that MirrorMaker 2 had copied before drkit took over; target offsets."""

    by_place: int
    """Compared by offset: the takeover found the offset of each record."""
    by_content: int = 0
    """Compared by content and order, because no map covers them."""
    not_compared: int = 0
    """Not compared: there are too many."""
    counts: Counts = field(default_factory=Counts)
    """Of those that were compared by content."""
    committed: bool = True
    """False: records of aborted transactions were copied too."""


@dataclass(frozen=True, slots=True)
class FlowReport:
    """A flow, compared."""

    flow: str
    partitions: list[PartitionResult]
    unclear: list[tuple[str, int, str]]
    absent: dict[str, int]
    notes: list[str]
    seconds: float
    peak_memory_bytes: int = 0
    counts: Counts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", sum((p.counts for p in self.partitions), Counts()))

    @property
    def verdict(self) -> VerifyVerdict:
        """The verdict on the flow: a difference outweighs anything unknown."""
        if self.counts.differences:
            return VerifyVerdict.DIFFERENT
        is_unknown = self.unclear or any(p.undecided for p in self.partitions)
        return VerifyVerdict.UNDECIDED if is_unknown else VerifyVerdict.EQUAL

    def as_dict(self, most: int) -> dict[str, Any]:
        """The report as plain data, with the first `most` differences."""
        found = [(p, f) for p in self.partitions for f in p.findings]
        undecided = [
            *self.unclear,
            *((p.topic, p.partition, p.undecided) for p in self.partitions if p.undecided),
        ]
        waiting = sum(p.waiting for p in self.partitions) + sum(self.absent.values())
        return {
            "flow": self.flow,
            "verdict": self.verdict.value,
            "topics": len({p.topic for p in self.partitions}),
            "partitions": len(self.partitions),
            **asdict(self.counts),
            "differences_total": self.counts.differences,
            "not_yet_copied_offsets": waiting,
            "differences": [_row(p, f) for p, f in found[:most]],
            "undecided": [{"topic": t, "partition": n, "reason": r} for t, n, r in undecided],
            "not_on_target_yet": self.absent,
            "notes": [*self.notes, *self._key_notes(), *self._old_notes()],
            "taken_over_from_mirror_maker_2": self._taken_over(),
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.counts.source_records / self.seconds) if self.seconds > 0 else 0,
            "peak_task_memory_mib": self.peak_memory_bytes >> 20,
        }

    def _taken_over(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": topic,
                "partitions": len(found),
                "offsets_compared_by_place": sum(t.by_place for t in found),
                "offsets_compared_by_content": sum(t.by_content for t in found),
                "equal": counts.equal,
                "repeated": counts.repeated,
                "missing": counts.missing,
                "extra": counts.extra,
            }
            for topic, found in self._old_parts()
            for counts in [sum((t.counts for t in found), Counts())]
        ]

    def _old_parts(self) -> list[tuple[str, list[OldPart]]]:
        parts = sorted(((p.topic, p.taken_over) for p in self.partitions if p.taken_over), key=itemgetter(0))
        return [(topic, [t for _, t in group]) for topic, group in groupby(parts, key=itemgetter(0))]

    def _key_notes(self) -> list[str]:
        topics = sorted({p.topic for p in self.partitions if p.counts.outlived})
        found = {t: sum(p.counts.outlived for p in self.partitions if p.topic == t) for t in topics}
        return [
            f"{topic}: {counted(number, 'key', 'was')} deleted on the source, and no tombstone was copied: a"
            " tombstone of each, written to the source, deletes it on the target as well"
            for topic, number in found.items()
        ]

    def _old_notes(self) -> list[str]:
        notes = []
        for topic, found in self._old_parts():
            if not all(t.committed for t in found):
                notes.append(f"{topic}: MirrorMaker 2 also copied what transactions aborted; it stays there")
            if left_out := sum(t.not_compared for t in found):
                notes.append(
                    f"{topic}: {left_out} older offsets of what MirrorMaker 2 copied are not compared; at the"
                    f" most the last {MOST} of a partition are"
                )
        return notes


def join(views: Iterable[PartitionView], results: Iterable[RangeResult]) -> list[PartitionResult]:
    """The ranges of each partition put together."""
    ordered = sorted(results, key=lambda r: (r.topic, r.partition, r.source_from))
    by_place = {k: list(g) for k, g in groupby(ordered, key=lambda r: (r.topic, r.partition))}
    return [_partition(v, by_place[v.source]) for v in views]


def _partition(view: PartitionView, ranges: list[RangeResult]) -> PartitionResult:
    counts = sum((r.counts for r in ranges), Counts())
    findings = [f for r in ranges for f in r.findings]
    if len(ranges) > 1:
        findings = _across(findings, counts)
    first = next((r.first_waiting for r in ranges if r.first_waiting is not None), None)
    return PartitionResult(
        *view.source,
        counts,
        findings,
        "; ".join(sorted({r.undecided for r in ranges if r.undecided})),
        0 if first is None else max(0, view.source_end - first),
        _taken_over(view, ranges),
    )


def _taken_over(view: PartitionView, ranges: list[RangeResult]) -> OldPart | None:
    if view.taken_over is None:
        return None
    _, end, committed = view.taken_over
    old = next((r for r in ranges if r.before), None)
    if old is None or view.begin is None:
        return OldPart(max(0, end - view.target_start), committed=committed)
    begin = max(view.target_start, view.begin[1])
    by_content = begin - old.compared_from
    not_compared = old.compared_from - view.target_start
    return OldPart(max(0, end - begin), by_content, not_compared, old.counts, committed and old.committed)


def _across(findings: list[Difference], counts: Counts) -> list[Difference]:
    """Findings across ranges: a record missing in one and surplus in the next is only misplaced."""
    surplus: dict[str, list[Difference]] = {}
    for finding in findings:
        if finding.kind is DifferenceKind.EXTRA:
            surplus.setdefault(finding.digest, []).append(finding)
    found: list[Difference] = []
    gone: set[int] = set()
    for finding in findings:
        if finding.kind is DifferenceKind.MISSING and (same := surplus.get(finding.digest)):
            extra = same.pop(0)
            gone.add(id(extra))
            counts.recount(DifferenceKind.MISSING, DifferenceKind.MISPLACED)
            counts.count(DifferenceKind.EXTRA, -1)
            text = f"the map says offset {finding.target_offset}: {finding.evidence}"
            found.append(
                replace(
                    finding, kind=DifferenceKind.MISPLACED, target_offset=extra.target_offset, evidence=text
                )
            )
        else:
            found.append(finding)
    return [f for f in found if id(f) not in gone]


def _row(partition: PartitionResult, finding: Difference) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "difference": finding.kind.value.replace("_", " "),
        "source_offset": finding.source_offset,
        "target_offset": finding.target_offset,
        "evidence": finding.evidence,
    }


def answer(reports: Iterable[FlowReport], most: int, *, whole: bool) -> Any:
    """Return the output of the command: one flow as it is, several as a list.

    :param most: differences to show per flow
    :param whole: include fields that are zero or empty, for programs
    """
    found = [r.as_dict(most) for r in reports]
    if not whole:
        found = [{k: v for k, v in each.items() if v or k in _ALWAYS} for each in found]
    return found[0] if len(found) == 1 else found


def exit_code(reports: Iterable[FlowReport]) -> int:
    """Exit code of the command: a difference outweighs an unknown."""
    verdicts = {r.verdict for r in reports}
    return next((v.exit_code for v in (VerifyVerdict.DIFFERENT, VerifyVerdict.UNDECIDED) if v in verdicts), 0)
