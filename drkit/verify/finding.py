"""What a comparison finds: kinds of differences, their evidence, and the counts. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

_PREVIEW_BYTES = 40


class DifferenceKind(StrEnum):
    """How a copy can differ from its source."""

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
    """The record exists in order, but not where the map says: groups would get wrong offsets."""


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

    def as_kind(self, kind: DifferenceKind) -> Difference:
        """The same finding under another name."""
        return replace(self, kind=kind)


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


def preview(key: bytes | None, value: bytes | None, timestamp: int, headers: int) -> str:
    """A short text of a record of any size."""
    more = f" headers={headers}" if headers else ""
    return f"key={_short(key)} value={_short(value)} timestamp={timestamp}{more}"


def _short(data: bytes | None) -> str:
    if data is None:
        return "null"
    if len(data) <= _PREVIEW_BYTES:
        return repr(data)[1:]
    return f"{repr(data[:_PREVIEW_BYTES])[1:]}… ({len(data)} bytes)"
