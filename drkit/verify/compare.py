"""Compares one range of a source partition with its copy, record by record. Pure.

Both sides are streams in offset order; the offset map says which target offset each source record must have.
A record that does not match is remembered for a while by its content. This separates a lost record from a
misplaced one, and a swap from two changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from drkit.living_keys import LivingKeys
from drkit.verify.finding import Counts, Difference, DifferenceKind
from drkit.verify.strays import Stray, UnmatchedRecords

Spans = tuple[tuple[int, int], ...]
"""Ranges of offsets, half open."""
_NEVER = 1 << 63
_OPEN_KEYS = 200_000
"""Keys remembered at once while a compacted target is compared; some 200 bytes each."""
_LIVING_KEYS = 5_000_000
"""Keys remembered at once while a compacted source is compared; sixteen bytes each."""
FINDINGS = 1000
"""Findings of one range that are kept; all are counted."""


class ConsumedRecord(NamedTuple):
    """A record as an ordinary consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp: int
    """Milliseconds since 1970."""


class Segment(NamedTuple):
    """A run of records with a constant difference of the offsets; always of known length here."""

    upstream: int
    downstream: int
    records: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What may legitimately be missing on either side."""

    source_compacted: bool = False
    target_compacted: bool = False
    source_start: Callable[[], int] = field(default=lambda: 0)
    """The source partition's current first offset: retention continues during the comparison."""
    target_start: Callable[[], int] = field(default=lambda: 0)
    source_apart: Spans = ()
    """Ranges of source offsets in which a record that the map does not know belongs elsewhere: a return
    has kept a tail."""
    target_apart: Spans = ()
    keys_from: int = 0
    """The source offset from which a key of a compacted source must be there, or have been deleted on the
    target, too."""


class RecordLocator:
    """The expected offsets of records; queried with ascending offsets."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        # The last one is never reached: it ends every search.
        self._segments = [*(s for s in segments if s.records > 0), Segment(_NEVER, _NEVER, 1)]
        self._at = 0
        self._back = 0

    def target_of(self, upstream: int) -> int | None:
        """The target offset of a source record; None: the map has no offset for it."""
        while (segment := self._segments[self._at]).upstream + segment.records <= upstream:
            self._at += 1
        return None if upstream < segment.upstream else segment.downstream + upstream - segment.upstream

    def source_of(self, downstream: int) -> int | None:
        """The source offset of the record that belongs at a target offset; None: nothing does."""
        while (segment := self._segments[self._back]).downstream + segment.records <= downstream:
            self._back += 1
        if downstream < segment.downstream:
            return None
        return segment.upstream + downstream - segment.downstream


class Comparison:
    """One range being compared."""

    def __init__(self, segments: Iterable[Segment], rules: Rules) -> None:
        self.counts = Counts()
        self.findings: list[Difference] = []
        self.undecided = ""
        self.living = LivingKeys()
        """Keys of a compacted source whose newest record has a value and exists on the target alone."""
        self._places = RecordLocator(segments)
        self._rules = rules
        self._strays = UnmatchedRecords(self._moved, self._lost, self._different)
        self._last_moved: tuple[int, int, bool] | None = None
        self._open_keys: OrderedDict[bytes, Stray] = OrderedDict()

    def run(self, source: Iterator[ConsumedRecord], target: Iterator[ConsumedRecord]) -> None:
        """Compare two streams to their ends."""
        counts, place_of = self.counts, self._places.target_of
        s, t = next(source, None), next(target, None)
        place = place_of(s.offset) if s else None
        while s is not None or t is not None:
            if s is not None and t is not None and place == t.offset:
                if s[1:] == t[1:]:
                    counts.equal += 1
                else:
                    self._mismatch(s, t)
                take_source = take_target = True
            elif s is not None and (t is None or place is None or place < t.offset):
                self._lone_source(s, place)
                take_source, take_target = True, False
            elif t is not None:
                self._lone_target(t)
                take_source, take_target = False, True
            if take_source and s is not None:
                counts.source_records += 1
                self.living.drop(s.key)
                if self._open_keys:
                    self._supersede(s, place)
                s = next(source, None)
                place = place_of(s.offset) if s else None
            if take_target:
                counts.target_records += 1
                t = next(target, None)
        self._finish()

    def _mismatch(self, s: ConsumedRecord, t: ConsumedRecord) -> None:
        self.living.drop(t.key)
        fields = tuple(
            name for name, a, b in zip(ConsumedRecord._fields[1:], s[1:], t[1:], strict=True) if a != b
        )
        self._strays.pair(
            Stray.of(s, s.offset, t.offset, self.counts.equal),
            Stray.of(t, t.offset, s.offset, self.counts.equal),
            fields,
        )

    def _lone_source(self, s: ConsumedRecord, place: int | None) -> None:
        if place is None and _is_in(self._rules.source_apart, s.offset):
            self.counts.source_records -= 1
            return
        stray = Stray.of(s, s.offset, place, self.counts.equal)
        if place is None or not self._rules.target_compacted or s.key is None:
            self._strays.source(stray)
        elif s.value is None:
            self.counts.compacted += 1  # a tombstone that compaction may remove
        else:
            if self._open_keys.pop(s.key, None) is not None:
                self.counts.compacted += 1
            self._open_keys[s.key] = stray
            if len(self._open_keys) > _OPEN_KEYS:
                self._open_keys.popitem(last=False)
                self.undecided = f"over {_OPEN_KEYS} keys of the compacted target wait for a later record"

    def _supersede(self, s: ConsumedRecord, place: int | None) -> None:
        """Compaction may remove a record once a later one of the same key is there."""
        if s.key is not None and (old := self._open_keys.get(s.key)) and old.offset != s.offset and place:
            del self._open_keys[s.key]
            self.counts.compacted += 1

    def _lone_target(self, t: ConsumedRecord) -> None:
        origin = self._places.source_of(t.offset)
        if origin is not None and self._rules.source_compacted:
            self.counts.deleted_at_source += 1
            self._outlives(t, origin)
            return
        self.living.drop(t.key)
        if origin is None and _is_in(self._rules.target_apart, t.offset):
            self.counts.target_records -= 1
        else:
            self._strays.target(Stray.of(t, t.offset, origin, self.counts.equal))

    def _outlives(self, t: ConsumedRecord, origin: int) -> None:
        """Remember a key that may be deleted on the source: later records of it are read yet."""
        first = max(self._rules.keys_from, self._rules.source_start())
        is_judged = t.value is not None and origin >= first
        self.living.take(t.key, t.offset, has_value=is_judged)
        if self.living.at_most > _LIVING_KEYS:
            self.undecided = f"over {_LIVING_KEYS} keys of the compacted source wait for a later record"
            self.living, self._rules = LivingKeys(), replace(self._rules, keys_from=_NEVER)

    def _finish(self) -> None:
        for stray in self._open_keys.values():
            self._strays.source(stray)
        self._strays.finish()

    # -- results of the strays ----------------------------------------------------------------------

    def _moved(self, source: Stray, target: Stray) -> None:
        """Report a record that exists at another offset than the map says."""
        offsets = (source.offset, target.offset)
        crossed = source.equal_before != target.equal_before
        if (last := self._last_moved) is not None and not crossed:
            crossed = (offsets[0] - last[0]) * (offsets[1] - last[1]) < 0
            if crossed and not last[2]:
                self._recount_as_out_of_order(last)
        self._last_moved = (*offsets, crossed)
        kind = DifferenceKind.OUT_OF_ORDER if crossed else DifferenceKind.MISPLACED
        belongs = "no offset" if source.place is None else f"offset {source.place}"
        self._add(Difference(kind, *offsets, evidence=f"the map says {belongs}: {source.preview}"))

    def _recount_as_out_of_order(self, last: tuple[int, int, bool]) -> None:
        self.counts.recount(DifferenceKind.MISPLACED, DifferenceKind.OUT_OF_ORDER)
        for i in range(len(self.findings) - 1, -1, -1):
            found = self.findings[i]
            if (found.source_offset, found.target_offset) == last[:2]:
                self.findings[i] = found.as_kind(DifferenceKind.OUT_OF_ORDER)
                return

    def _lost(self, stray: Stray, *, on_source: bool) -> None:
        """A record without a counterpart."""
        if on_source:
            if stray.place is not None and stray.place < self._rules.target_start():
                self.counts.deleted_at_target += 1
                return
            self._add(
                Difference(
                    DifferenceKind.MISSING, stray.offset, stray.place, stray.digest, evidence=stray.preview
                )
            )
            return
        if stray.place is not None and stray.place < self._rules.source_start():
            self.counts.deleted_at_source += 1
            return
        text = stray.preview
        if stray.place is None:
            text = f"not written by this flow: {text}"
        self._add(Difference(DifferenceKind.EXTRA, stray.place, stray.offset, stray.digest, evidence=text))

    def _different(self, source: Stray, target: Stray, fields: tuple[str, ...]) -> None:
        evidence = f"{', '.join(fields)} differ: source {source.preview}, target {target.preview}"
        self._add(
            Difference(
                DifferenceKind.DIFFERENT, source.offset, target.offset, fields=fields, evidence=evidence
            )
        )

    def _add(self, finding: Difference) -> None:
        self.counts.count(finding.kind)
        if len(self.findings) < FINDINGS:
            self.findings.append(finding)


def _is_in(spans: Spans, offset: int) -> bool:
    return any(first <= offset < end for first, end in spans)


def compare(
    source: Iterator[ConsumedRecord],
    target: Iterator[ConsumedRecord],
    segments: Iterable[Segment],
    rules: Rules,
) -> Comparison:
    """Compare two streams of records through the segments of the offset map.

    Memory is bounded by a window of records that do not fit, whatever the length of the streams.
    """
    comparison = Comparison(segments, rules)
    comparison.run(source, target)
    return comparison
