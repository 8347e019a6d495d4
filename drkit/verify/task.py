"""The part of ``drkit verify`` that runs in Spark's executors: one range, both sides streamed.

Keys that were deleted on a compacted source may live on the target, if no tombstone was copied. The source
removes a record only in favour of a later one of its key, and a tombstone only after all earlier ones. So a
key that has a value on the target and no record on the source was deleted there. Both logs change while they
are compared: the keys that are left then are looked up in both again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
import resource
import time
from typing import Final, NamedTuple

from drkit.config import ClusterSettings
from drkit.flow_state.codec.record import TaskData
from drkit.kafka.clients import TIMESTAMP_LOG_APPEND_TIME, Message
from drkit.kafka.reading.range_reader import LogStart, RangeReader
from drkit.living_keys import LivingKeys
from drkit.model import ConsumedRecord
from drkit.offsets.alignment import Fingerprints
from drkit.takeover.mm2_takeover import content
from drkit.verify.before import Trimmed, compare_before
from drkit.verify.compare import (
    FINDINGS,
    Counts,
    Difference,
    DifferenceKind,
    RecordLocator,
    Rules,
    compare,
    preview,
)
from drkit.verify.ranges import Range

Read = Callable[[int, int], Iterable[ConsumedRecord]]
"""Reads the records of a range of offsets."""
MOST: Final = 2_000_000
"""Target offsets of MirrorMaker 2's part of a partition that are compared, the last ones: 80 bytes each."""
_readers: dict[str, RangeReader] = {}
"""Readers by connection settings: Spark reuses its Python workers, so consumers stay connected."""


class SourceAgain(NamedTuple):
    """The source after the comparison."""

    read: Read
    span: tuple[int, int]
    """The offsets that were compared."""
    end: Callable[[], int]
    """The current last stable offset."""
    start: Callable[[], int]
    """The current first offset: earlier records were not deleted by their key."""


class TargetAgain(NamedTuple):
    """The target after the comparison."""

    read: Read
    read_all: Read
    """Reads records of open transactions, too: among them may be a tombstone that is being copied."""
    compared_to: int
    end: Callable[[], int]
    """The current end of the log."""


def find_outlived(
    living: LivingKeys, places: RecordLocator, source: SourceAgain, target: TargetAgain
) -> tuple[Counts, list[Difference]]:
    """Judge keys whose newest record is on the target alone; return counts to add, and the first findings.

    :param living: the keys, with the offsets of these records
    """
    first, frontier = source.span
    for start, end in ((frontier, source.end), (first, lambda: frontier)):
        if living.number():
            for record in source.read(start, end()):
                living.drop(record.key)
    if not living.number():
        return Counts(), []
    keys = _TargetKeys(living, places, source.start())
    keys.take(target.read(keys.first, target.compared_to))
    keys.take(target.read_all(target.compared_to, target.end()))
    number = keys.living.number()
    return Counts(outlived=number, deleted_at_source=-number), keys.findings()


class _TargetKeys:
    """Reads the target again, for the records that still exist and are the newest of their keys."""

    def __init__(self, living: LivingKeys, places: RecordLocator, source_start: int) -> None:
        self._expected = living.offsets()
        self._next = 0
        self._places, self._source_start = places, source_start
        self._differences: dict[int, Difference] = {}
        self.living = LivingKeys()

    @property
    def first(self) -> int:
        """The first offset to read."""
        return self._expected[0]

    def take(self, copy: Iterable[ConsumedRecord]) -> None:
        """Take the next records of the target."""
        for record in copy:
            while self._next < len(self._expected) and self._expected[self._next] < record.offset:
                self._next += 1
            is_key = self._next < len(self._expected) and self._expected[self._next] == record.offset
            origin = self._places.source_of(record.offset) if is_key else None
            lives = origin is not None and origin >= self._source_start
            self.living.take(record.key, record.offset, has_value=lives)
            if lives and len(self._differences) < FINDINGS:
                text = f"the source has no record of its key: {preview(record)}"
                self._differences[record.offset] = Difference(
                    DifferenceKind.OUTLIVED, origin, record.offset, evidence=text
                )

    def findings(self) -> list[Difference]:
        """Return the first of the records that are left."""
        offsets = set(self.living.offsets())
        return [finding for offset, finding in self._differences.items() if offset in offsets]


@dataclass(frozen=True, slots=True)
class RangeResult(TaskData):
    """The result of one range."""

    topic: str
    partition: int
    source_from: int
    counts: Counts
    findings: list[Difference] = field(default_factory=list)
    undecided: str = ""
    first_waiting: int | None = None
    """Offset of the first source record after the frontier, or None if all records are copied."""
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    before: bool = False
    """The range is of the part that MirrorMaker 2 copied."""
    committed: bool = True
    """Of MirrorMaker 2's part: no records of aborted transactions were copied."""
    compared_from: int = 0
    """Of MirrorMaker 2's part: the first target offset compared; there were too many records before it."""


def compare_range(piece: Range, source: ClusterSettings, target: ClusterSettings) -> RangeResult:
    """Compare one range; blocking. Raises Failed if a cluster stopped answering."""
    if piece.again_from is not None:
        return compare_old_range(piece, source, target)
    started = time.monotonic()
    source_reader, target_reader = _reader(source), _reader(target)
    old = source_reader if piece.committed else _reader(source, committed=False)
    rules = Rules(
        piece.source_compacted,
        piece.target_compacted,
        LogStart(source_reader, piece.source),
        LogStart(target_reader, piece.target),
        source_apart=tuple((first, end) for first, end, _, _ in piece.apart),
        target_apart=tuple((first, end) for _, _, first, end in piece.apart),
        keys_from=piece.keys_from,
    )
    found = compare(
        old.read(piece.source, piece.source_from, piece.source_to),
        target_reader.read(piece.target, piece.target_from, piece.target_to),
        piece.segments,
        rules,
    )
    outlived, of_keys = _outlived(piece, found.living, source, target)
    waiting = None
    if piece.lag_until is not None:
        waiting = next(
            (s.offset for s in source_reader.read(piece.source, piece.source_to, piece.lag_until)), None
        )
    return RangeResult(
        topic=piece.source.topic,
        partition=piece.source.partition,
        source_from=piece.source_from,
        counts=found.counts + outlived,
        findings=[*found.findings, *of_keys],
        undecided=found.undecided,
        first_waiting=waiting,
        seconds=time.monotonic() - started,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _outlived(
    piece: Range, living: LivingKeys, source: ClusterSettings, target: ClusterSettings
) -> tuple[Counts, list[Difference]]:
    if not living.number():
        return Counts(), []
    old, new, all_new = _reader(source), _reader(target), _reader(target, committed=False)
    return find_outlived(
        living,
        RecordLocator(piece.segments),
        SourceAgain(
            partial(old.read, piece.source),
            (piece.source_from, piece.source_to),
            partial(old.log_end, piece.source),
            partial(old.log_start, piece.source),
        ),
        TargetAgain(
            partial(new.read, piece.target),
            partial(all_new.read, piece.target),
            piece.target_to,
            partial(all_new.log_end, piece.target),
        ),
    )


def compare_old_range(piece: Range, source: ClusterSettings, target: ClusterSettings) -> RangeResult:
    """Compare what MirrorMaker 2 copied before drkit took over; blocking.

    MirrorMaker 2 reads uncommitted records by default: a target that matches only with them is compared so.

    :raises Failed: a cluster stopped answering
    """
    started = time.monotonic()
    begin = max(piece.target_from, piece.target_to - MOST)
    partial = begin > piece.target_from
    # Markers and aborted records take offsets too: twice as many of the source hold the same records.
    first = max(piece.source_from, piece.source_to - 2 * MOST) if partial else piece.source_from
    source_range = piece.source, first, piece.source_to
    copied, times = _with_times(_reader(target).messages(piece.target, begin, piece.target_to))
    trimmed = Trimmed(
        piece.source_from > 0, piece.target_from > 0, piece.source_compacted, piece.target_compacted, partial
    )
    committed = _fingerprints(_reader(source).messages(*source_range), times=times)
    found = best = compare_before(committed, copied, trimmed, piece.again_from)
    if found.counts.differences:
        written = _fingerprints(_reader(source, committed=False).messages(*source_range), times=times)
        other = compare_before(written, copied, trimmed, piece.again_from)
        best = min(found, other, key=lambda b: b.counts.differences)
    return RangeResult(
        piece.source.topic, piece.source.partition, piece.source_from, best.counts, best.findings,
        before=True, committed=best is found, compared_from=begin, seconds=time.monotonic() - started,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )  # fmt: skip


def _with_times(messages: Iterator[Message]) -> tuple[Fingerprints, bool]:
    first = next(messages, None)
    if first is None:
        return Fingerprints(), True
    times = first.timestamp()[0] != TIMESTAMP_LOG_APPEND_TIME
    return _fingerprints(chain([first], messages), times=times), times


def _fingerprints(messages: Iterable[Message], *, times: bool) -> Fingerprints:
    found = Fingerprints()
    for message in messages:
        found.add(message.offset() or 0, content(message, times=times))
    return found


def _reader(settings: ClusterSettings, *, committed: bool = True) -> RangeReader:
    address = f"{committed} {settings.model_dump_json()}"
    if address not in _readers:
        _readers[address] = RangeReader(settings, committed=committed)
    return _readers[address]
