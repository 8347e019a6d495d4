"""Decides whether a group's translated offset may be committed on the target: one table of refusals. Pure.

A commit of drkit has a mark in its metadata, which includes the offset. A consumer's commit overwrites both:
an offset without this mark, or one that differs from the offset in the mark, is the group's own commit and is
never overwritten. A group without members proves nothing:
consumers that assign partitions themselves, as Spark and Flink do, never join.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from drkit.model import TopicPartition
from drkit.offsets.segments import Unavailable
from drkit.offsets.translation import Translation

_MARK: Final = "drkit/1"
_IDLE: Final = frozenset({"", "Empty", "Dead"})
"""States of a group without members."""


class OffsetMark(NamedTuple):
    """The metadata of a committed offset that drkit wrote."""

    source: str
    """Alias of the cluster from which the group's position comes."""
    upstream: int | None
    """The group's committed offset there. None: the mark is void. It permits this flow to overwrite an offset
    without a counterpart there, and is no position of the group."""
    downstream: int
    """The offset that was written with it."""
    written_ms: int
    """When, in milliseconds since 1970."""

    def text(self) -> str:
        """The metadata text."""
        upstream = "-" if self.upstream is None else self.upstream
        return f"{_MARK} {self.source} {upstream} {self.downstream} {self.written_ms}"

    @classmethod
    def of(cls, text: str) -> OffsetMark | None:
        """Read metadata; None when drkit did not write them."""
        return _mark(text) if text.startswith(_MARK) else None


@lru_cache(maxsize=256)  # the table asks for one mark a dozen times in a row
def _mark(text: str) -> OffsetMark | None:
    parts = text.split(" ")
    if len(parts) != 1 + len(OffsetMark._fields) or parts[0] != _MARK:
        return None
    try:
        upstream = None if parts[2] == "-" else int(parts[2])
        return OffsetMark(parts[1], upstream, *map(int, parts[3:]))
    except ValueError:
        return None


class StoredOffset(NamedTuple):
    """An offset that a cluster keeps for a group."""

    offset: int
    metadata: str = ""

    @property
    def mark(self) -> OffsetMark | None:
        """Our mark, when the offset is still the one written with it."""
        mark = OffsetMark.of(self.metadata) if self.metadata else None
        return mark if mark is not None and mark.downstream == self.offset else None

    @property
    def void(self) -> OffsetMark | None:
        """The mark, when it is void: the offset is no position, and drkit may only overwrite it."""
        return self.mark if self.mark is not None and self.mark.upstream is None else None

    def is_from(self, source: str) -> bool:
        """Return whether the flow from this cluster wrote the offset, and no one has committed since."""
        return self.mark is not None and self.mark.source == source


def positions_in(
    offsets: Mapping[TopicPartition, tuple[int, str]], topics: Container[str] | None = None
) -> dict[TopicPartition, StoredOffset]:
    """Return a group's committed positions, of all topics or some, without void marks."""
    stored = ((tp, StoredOffset(*c)) for tp, c in offsets.items() if topics is None or tp.topic in topics)
    return {tp: s for tp, s in stored if s.void is None}


class GuardVerdict(StrEnum):
    """What becomes of a group's offset in one partition."""

    WRITE = "written"
    REFRESH = "refreshed"
    """Written again unchanged, before the target forgets it (``offsets.retention.minutes``)."""
    UNCHANGED = "unchanged"
    ECHO = "came from the other side"
    """The source's offset was written by drkit, from the position that the group has on the target."""
    NO_POSITION = "no exact position"
    PROMOTED = "topic promoted"
    LIVE = "group has members on the target"
    MOVED = "group committed offsets on the target"
    OUT_OF_RANGE = "outside of the target's log"
    NOT_TOLD = "target did not tell the group"
    NOT_STORED = "target did not store it"
    """Found out after writing: the partition's own error, or another offset when read back."""

    @property
    def is_write(self) -> bool:
        """Return whether something is to be written."""
        return self in _WRITES

    @property
    def is_refusal(self) -> bool:
        """Return whether the target's offset is behind because of this."""
        return self not in _FINE


_WRITES: Final = frozenset({GuardVerdict.WRITE, GuardVerdict.REFRESH})
_FINE: Final = _WRITES | {GuardVerdict.UNCHANGED, GuardVerdict.ECHO}


class Case(NamedTuple):
    """One group and partition: all that the table looks at."""

    source: str
    """Alias of the source."""
    on_source: StoredOffset
    """What the group has committed on the source."""
    position: Translation
    """The group's position on the target."""
    state: str | None
    """The group's state on the target; empty when it does not exist, None when the target did not answer."""
    on_target: StoredOffset | None
    """What the target keeps for it now."""
    worked: bool
    """The group has committed something by itself in a copied topic there, be it in another partition."""
    start: int
    end: int
    """Where the target's log begins and ends."""
    promoted: bool
    """Producers own the target's topic."""
    now_ms: int
    refresh_ms: int
    """After this time an unchanged offset is written again."""
    is_void: bool = False
    """The offset on the target is from before a return, and no longer a position in the copy."""

    @property
    def offset(self) -> int:
        """The offset to write; −1 without one."""
        return -1 if isinstance(self.position, Unavailable) else self.position.offset

    @property
    def own_mark(self) -> OffsetMark | None:
        """The mark of this flow on what the target keeps."""
        own = self.on_target
        return own.mark if own is not None and own.is_from(self.source) else None

    @property
    def is_echo(self) -> bool:
        """Return whether drkit copied the source's offset from a position that the target still has.

        Else the source has the only position: the target has forgotten it (``offsets.retention.minutes``),
        the group was deleted on it, or this flow has written there since.
        """
        mark, own = self.on_source.mark, self.on_target
        if mark is None or mark.upstream is None or own is None or self.is_void:
            return False
        return self.own_mark is None and own.offset >= mark.upstream

    @property
    def unchanged(self) -> bool:
        """What the target keeps is what would be written."""
        mark = self.own_mark
        return mark is not None and (mark.upstream, mark.downstream) == (self.on_source.offset, self.offset)


TABLE: Final[tuple[tuple[GuardVerdict, Callable[[Case], bool]], ...]] = (
    (GuardVerdict.ECHO, lambda c: c.is_echo),
    (GuardVerdict.NO_POSITION, lambda c: c.on_source.void is not None or isinstance(c.position, Unavailable)),
    (GuardVerdict.PROMOTED, lambda c: c.promoted),
    (GuardVerdict.NOT_TOLD, lambda c: c.state is None),
    (GuardVerdict.LIVE, lambda c: c.state not in _IDLE),
    (GuardVerdict.MOVED, lambda c: c.worked or (c.on_target is not None and c.own_mark is None)),
    (GuardVerdict.OUT_OF_RANGE, lambda c: not c.start <= c.offset <= c.end),
    (GuardVerdict.REFRESH, lambda c: c.unchanged and _age_ms(c) >= c.refresh_ms),
    (GuardVerdict.UNCHANGED, lambda c: c.unchanged),
)
"""The first line that is true decides; if none is, the offset is written."""


def judge(case: Case) -> GuardVerdict:
    """What becomes of one offset."""
    for verdict, holds in TABLE:
        if holds(case):
            return verdict
    return GuardVerdict.WRITE


def to_write(case: Case) -> StoredOffset:
    """The offset with its mark."""
    mark = OffsetMark(case.source, case.on_source.offset, case.offset, case.now_ms)
    return StoredOffset(case.offset, mark.text())


def may_delete(source: str, state: str | None, stored: list[StoredOffset]) -> bool:
    """Return whether a group that is gone from the source may be deleted here: only this flow wrote to it."""
    if state is None or state not in _IDLE or not stored:
        return False
    return all(s.is_from(source) for s in stored)


def _age_ms(case: Case) -> int:
    return case.now_ms - case.own_mark.written_ms if case.own_mark is not None else 0
