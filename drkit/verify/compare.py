"""Compares one range of a source partition with its copy, record by record. Pure.

Both sides are streams in offset order; the offset map says which target offset each source record must have.
A record that does not match is remembered for a while by its content. This separates a lost record from a
misplaced one, and a swap from two changes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from drkit.living_keys import LivingKeys
from drkit.model import ConsumedRecord

_PREVIEW_BYTES = 40
_WINDOW = 10_000
"""Strays remembered per side, some 500 bytes each."""
_DIGEST_BYTES = 12
Spans = tuple[tuple[int, int], ...]
"""Ranges of offsets, half open."""
_NEVER = 1 << 63
_OPEN_KEYS = 200_000
"""Keys remembered at once while a compacted target is compared; some 200 bytes each."""
_LIVING_KEYS = 5_000_000
"""Keys remembered at once while a compacted source is compared; sixteen bytes each."""
FINDINGS = 1000
"""Findings of one range that are kept; all are counted."""


class DifferenceKind(StrEnum):
    """The kinds of differences between a copy and its source."""

    MISSING = "missing"
    """A source record before the frontier is not on the target."""
    EXTRA = "extra"
    """The target holds a record that no source record explains."""
    DIFFERENT = "different"
    """Key, value, headers or timestamp differ."""
    OUT_OF_ORDER = "out_of_order"
    """The record exists, but in the wrong order relative to a neighbour."""
    OUTLIVED = "outlived"
    """A key of a compacted topic has a value on the target, and no record on the source."""
    MISPLACED = "misplaced"
    """The record exists in order, but not at the offset of the map: groups would get wrong offsets."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, with both offsets as far as they exist."""

    kind: DifferenceKind
    source_offset: int | None
    target_offset: int | None
    """Of a missing record: its expected offset."""
    digest: str = ""
    """Of the content, to recognise it in the neighbouring range."""
    fields: tuple[str, ...] = ()
    evidence: str = ""


@dataclass(slots=True)
class Counts:
    """The number of records read, and of findings by kind."""

    source_records: int = 0
    target_records: int = 0
    equal: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    out_of_order: int = 0
    misplaced: int = 0
    outlived: int = 0
    deleted_at_source: int = 0
    """Only on the target: the source's retention or compaction has removed them since."""
    deleted_at_target: int = 0
    """Only on the source: before the target's log start."""
    compacted: int = 0
    """Only on the source: the target's compaction removed them in favour of a later record of the key."""
    repeated: int = 0
    """A second time on the target: MirrorMaker 2 copied them again before drkit took over."""

    @property
    def differences(self) -> int:
        """The number of findings that make the copy unequal."""
        return sum(getattr(self, kind.value) for kind in DifferenceKind)

    def count(self, kind: DifferenceKind, number: int = 1) -> None:
        """Count findings of a kind."""
        setattr(self, kind.value, getattr(self, kind.value) + number)

    def recount(self, old: DifferenceKind, new: DifferenceKind) -> None:
        """Count a finding under another kind instead."""
        self.count(old, -1)
        self.count(new)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


def preview(record: ConsumedRecord) -> str:
    """Return a short text of a record of any size."""
    more = f" headers={len(record.headers)}" if record.headers else ""
    return f"key={_short(record.key)} value={_short(record.value)} timestamp={record.timestamp}{more}"


def _short(data: bytes | None) -> str:
    if data is None:
        return "null"
    if len(data) <= _PREVIEW_BYTES:
        return repr(data)[1:]
    return f"{repr(data[:_PREVIEW_BYTES])[1:]}… ({len(data)} bytes)"


@dataclass(slots=True, eq=False)
class Stray:
    """A record without a counterpart, without its content, which may be megabytes."""

    on_source: bool
    offset: int
    place: int | None
    """The expected offset of its counterpart on the other side."""
    digest: str
    preview: str
    equal_before: int
    """Number of records found equal before it."""
    partner: Stray | None = None
    """The record with other content at the expected offset."""
    fields: tuple[str, ...] = ()
    """The fields that differ from its partner's."""

    @classmethod
    def of(cls, record: ConsumedRecord, place: int | None, equal_before: int, *, on_source: bool) -> Stray:
        """Remember a record."""
        digest = blake2b(digest_size=_DIGEST_BYTES)
        headers = record.headers or ()
        for part in (record.key, record.value, *(p for k, v in headers for p in (k.encode(), v))):
            digest.update(b"\xff" if part is None else len(part).to_bytes(4, "big"))
            digest.update(part or b"")
        digest.update(record.timestamp.to_bytes(8, "big", signed=True))
        return cls(on_source, record.offset, place, digest.hexdigest(), preview(record), equal_before)


class _Side:
    """The strays of one cluster, searched by content, dropped in order."""

    def __init__(self) -> None:
        self.all: OrderedDict[int, Stray] = OrderedDict()
        self._by_digest: dict[str, deque[Stray]] = {}

    def add(self, stray: Stray) -> None:
        self.all[stray.offset] = stray
        self._by_digest.setdefault(stray.digest, deque()).append(stray)

    def remove(self, stray: Stray) -> None:
        del self.all[stray.offset]
        same = self._by_digest[stray.digest]
        same.remove(stray)
        if not same:
            del self._by_digest[stray.digest]

    def take(self, digest: str) -> Stray | None:
        same = self._by_digest.get(digest)
        if not same:
            return None
        stray = same[0]
        self.remove(stray)
        return stray

    def first(self) -> Stray:
        return next(iter(self.all.values()))


@dataclass
class UnmatchedRecords:
    """Joins strays of both sides by content."""

    moved: Callable[[Stray, Stray], None]
    """Called with (source, target) of the same content."""
    lost: Callable[[Stray], None]
    """Called with a record without a counterpart."""
    different: Callable[[Stray, Stray], None]
    """Called with (source, target) at the same offset that nothing else explains."""
    _sides: dict[bool, _Side] = field(default_factory=lambda: {True: _Side(), False: _Side()}, init=False)
    """Strays of the source under True, of the target under False."""

    def add(self, stray: Stray) -> None:
        """Add a record whose expected offset on the other side is empty or holds another record."""
        if (counterpart := self._sides[not stray.on_source].take(stray.digest)) is not None:
            self.moved(*_source_first(stray, counterpart))
            return
        side = self._sides[stray.on_source]
        side.add(stray)
        if len(side.all) > _WINDOW:
            self._give_up(side.first())

    def pair(self, source: Stray, target: Stray, fields: tuple[str, ...]) -> None:
        """Add two records of different content at one offset."""
        source.partner, target.partner, source.fields = target, source, fields
        self.add(source)
        self.add(target)

    def finish(self) -> None:
        """Report the remaining records as lost or different: no more records follow."""
        for side in self._sides.values():
            while side.all:
                self._give_up(side.first())

    def _give_up(self, stray: Stray) -> None:
        self._sides[stray.on_source].remove(stray)
        partner, other = stray.partner, self._sides[not stray.on_source]
        if partner is None or other.all.get(partner.offset) is not partner:
            self.lost(stray)
            return
        other.remove(partner)
        self.different(*_source_first(stray, partner))


def _source_first(stray: Stray, other: Stray) -> tuple[Stray, Stray]:
    return (stray, other) if stray.on_source else (other, stray)


class Segment(NamedTuple):
    """A run of records with a constant difference of the offsets; always of known length here."""

    upstream: int
    downstream: int
    records: int


@dataclass(frozen=True, slots=True)
class Rules:
    """Reasons why records may be missing on either side."""

    source_compacted: bool = False
    target_compacted: bool = False
    source_start: Callable[[], int] = field(default=lambda: 0)
    """The source partition's current first offset: retention continues during the comparison."""
    target_start: Callable[[], int] = field(default=lambda: 0)
    source_apart: Spans = ()
    """Ranges of source offsets in which a return has kept a tail: records that the map does not know are
    not compared there."""
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
        """Return the target offset of a source record, or None if the map has none."""
        while (segment := self._segments[self._at]).upstream + segment.records <= upstream:
            self._at += 1
        return None if upstream < segment.upstream else segment.downstream + upstream - segment.upstream

    def source_of(self, downstream: int) -> int | None:
        """Return the source offset of the record that belongs at a target offset, or None if none does."""
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
        for stray in self._open_keys.values():
            self._strays.add(stray)
        self._strays.finish()

    def _mismatch(self, s: ConsumedRecord, t: ConsumedRecord) -> None:
        self.living.drop(t.key)
        fields = tuple(
            name for name, a, b in zip(ConsumedRecord._fields[1:], s[1:], t[1:], strict=True) if a != b
        )
        self._strays.pair(
            Stray.of(s, t.offset, self.counts.equal, on_source=True),
            Stray.of(t, s.offset, self.counts.equal, on_source=False),
            fields,
        )

    def _lone_source(self, s: ConsumedRecord, place: int | None) -> None:
        if place is None and _is_in(self._rules.source_apart, s.offset):
            self.counts.source_records -= 1
            return
        stray = Stray.of(s, place, self.counts.equal, on_source=True)
        if place is None or not self._rules.target_compacted or s.key is None:
            self._strays.add(stray)
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
            self._strays.add(Stray.of(t, origin, self.counts.equal, on_source=False))

    def _outlives(self, t: ConsumedRecord, origin: int) -> None:
        """Remember a key that may be deleted on the source: its later records are not read yet."""
        first = max(self._rules.keys_from, self._rules.source_start())
        is_judged = t.value is not None and origin >= first
        self.living.take(t.key, t.offset, has_value=is_judged)
        if self.living.at_most > _LIVING_KEYS:
            self.undecided = f"over {_LIVING_KEYS} keys of the compacted source wait for a later record"
            self.living, self._rules = LivingKeys(), replace(self._rules, keys_from=_NEVER)

    def _moved(self, source: Stray, target: Stray) -> None:
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
            finding = self.findings[i]
            if (finding.source_offset, finding.target_offset) == last[:2]:
                self.findings[i] = replace(finding, kind=DifferenceKind.OUT_OF_ORDER)
                return

    def _lost(self, stray: Stray) -> None:
        expected, text = stray.place, stray.preview
        source: int | None
        target: int | None
        if stray.on_source:
            if expected is not None and expected < self._rules.target_start():
                self.counts.deleted_at_target += 1
                return
            kind, source, target = DifferenceKind.MISSING, stray.offset, expected
        else:
            if expected is not None and expected < self._rules.source_start():
                self.counts.deleted_at_source += 1
                return
            kind, source, target = DifferenceKind.EXTRA, expected, stray.offset
            text = text if expected is not None else f"not written by this flow: {text}"
        self._add(Difference(kind, source, target, stray.digest, evidence=text))

    def _different(self, source: Stray, target: Stray) -> None:
        fields, kind = source.fields, DifferenceKind.DIFFERENT
        evidence = f"{', '.join(fields)} differ: source {source.preview}, target {target.preview}"
        self._add(Difference(kind, source.offset, target.offset, fields=fields, evidence=evidence))

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
    """Compare two streams of any length through the segments of the offset map, in bounded memory."""
    comparison = Comparison(segments, rules)
    comparison.run(source, target)
    return comparison
