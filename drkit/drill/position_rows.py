"""Judge positions of consumer groups by the records that follow them on both clusters. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple, Self

from drkit.counted import counted
from drkit.model import TopicPartition

WINDOW: Final = 3
"""Records that are compared after each position, at least."""


class PositionForm(StrEnum):
    """The origin of a position on the target."""

    TRANSLATED = "translated"
    """The translation of the group's committed offset on the source."""
    STORED = "stored"
    """The offset that the target stores for the group, compared with the source offset in drkit's mark."""


class PositionAnswer(StrEnum):
    """The result for one position."""

    SAME = "same"
    AT_END = "at the end"
    """Both logs end at the position."""
    BEHIND = "behind"
    """The stored position is exact, and the group has committed more on the source since."""
    DIFFERS = "differs"
    NO_POSITION = "no position"
    NO_MARK = "no mark"
    """Another client has committed the stored position."""
    NOT_COPIED = "not copied yet"
    """The next record on the source is at or after the frontier of the copy."""
    NOT_DISTINGUISHABLE = "not distinguishable"
    """All compared records are equal, so they do not prove the position."""
    UNKNOWN = "unknown"
    """A request got no answer."""


class RecordDigest(NamedTuple):
    """A record: its offset, and the hash of its timestamp, key, value and headers."""

    offset: int
    digest: str


class RecordWindow(NamedTuple):
    """The next visible records after an offset."""

    records: tuple[RecordDigest, ...]
    at_end: bool
    """No visible record follows the last one of the window."""


class PositionEvidence(NamedTuple):
    """All that is needed to judge the position of a group in one partition."""

    group: str
    topic: str
    """On the source."""
    partition: int
    """−1: the offsets of the whole group are unknown."""
    form: PositionForm
    upstream: int | None = None
    """Offset on the source."""
    downstream: int | None = None
    """Offset on the target."""
    committed: int | None = None
    """The group's committed offset on the source, read after the stored one."""
    frontier: int | None = None
    """Source offset before which the copy is complete, or None if nothing is copied."""
    target_log: tuple[int, int] | None = None
    """First offset and end of the target's log."""
    expected: int | None = None
    """The exact translation, where retention has removed the next records and later ones are compared."""
    mark_age_seconds: float | None = None
    """Age of a stored position."""
    known: PositionAnswer | None = None
    """An answer that needs no records."""
    reason: str = ""
    # The windows are the last fields: `PackedPositions` replaces them.
    source: RecordWindow | None = None
    """None: not read."""
    target: RecordWindow | None = None

    @property
    def tp(self) -> TopicPartition:
        """The partition of the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def name(self) -> str:
        """The group, the partition and the form, for messages."""
        where = f", {self.tp}" if self.partition >= 0 else ""
        return f"group {self.group}{where}, {self.form}"


Judged = tuple[PositionAnswer, str]
"""An answer, and its reason in words."""


def judge_position(e: PositionEvidence) -> Judged:
    """Return the answer for one position, and its reason."""
    if e.known is not None:
        return e.known, e.reason
    if problem := _offset_problem(e):
        return PositionAnswer.DIFFERS, problem
    if e.source is None or e.target is None:
        return PositionAnswer.UNKNOWN, e.reason or "the records were not read"
    found, reason = compare_windows(e.source, e.target, e.frontier)
    if found is PositionAnswer.DIFFERS:
        return found, f"source @{e.upstream}, target @{e.downstream}: {reason}"
    repeated = (e.committed or 0) - (e.upstream or 0)
    is_behind = repeated > 0 and e.form is PositionForm.STORED
    if is_behind and found in {PositionAnswer.SAME, PositionAnswer.AT_END}:
        return PositionAnswer.BEHIND, f"{counted(repeated, 'offset')} would be repeated"
    return found, reason


def _offset_problem(e: PositionEvidence) -> str:
    """Return what is wrong with the offsets alone, or "" if nothing is."""
    if e.upstream is None or e.downstream is None or e.target_log is None:
        return ""
    start, end = e.target_log
    problem = ""
    if not start <= e.downstream <= end:
        problem = f"is outside of the target's log, @{start} to @{end}"
    elif e.expected not in {None, e.downstream}:
        problem = f"is not the translation, target @{e.expected}"
    elif e.committed is not None and e.upstream > e.committed and e.form is PositionForm.STORED:
        skipped = counted(e.upstream - e.committed, "offset")
        problem = f"skips {skipped} after the committed @{e.committed}"
    return problem and f"source @{e.upstream}, target @{e.downstream} {problem}"


def compare_windows(source: RecordWindow, target: RecordWindow, frontier: int | None) -> Judged:
    """Compare the records after a position on both sides.

    The end of the target's log is known before the end of the source's: a record that only the target has is
    no copy. A record that only the source has may be on its way, if it is at or after the frontier.
    """
    pairs = [*zip(source.records, target.records, strict=False)]
    uncopied, foreign = source.records[len(pairs) :], target.records[len(pairs) :]
    differs = next((f"source @{s.offset} is not target @{t.offset}" for s, t in pairs if s[1] != t[1]), "")
    if not differs and foreign and source.at_end:
        differs = f"target @{foreign[0].offset} follows the source's last record"
    if not differs and uncopied and target.at_end and uncopied[0].offset < (frontier or 0):
        differs = f"the target lacks source @{uncopied[0].offset}"
    if differs:
        return PositionAnswer.DIFFERS, differs
    if len({s.digest for s, _ in pairs}) > 1:  # equal records are the same one record later or earlier
        return PositionAnswer.SAME, ""
    not_copied = next((s for s in source.records if s.offset >= (frontier or 0)), None)
    if target.at_end and not_copied is not None:
        return PositionAnswer.NOT_COPIED, f"source @{not_copied.offset} is not copied yet"
    if source.at_end and target.at_end:  # up to both ends, the number of equal records proves the position
        return (PositionAnswer.SAME if pairs else PositionAnswer.AT_END), ""
    return PositionAnswer.NOT_DISTINGUISHABLE, f"{counted(len(pairs), 'compared record')} have equal contents"


def without_compacted(
    windows: tuple[RecordWindow, RecordWindow],
    position: tuple[int, int],
    counterpart: tuple[Callable[[int], int | None], Callable[[int], int | None]],
    is_compacted: tuple[bool, bool],
) -> tuple[RecordWindow, RecordWindow]:
    """Return both windows without the records that compaction has removed on the other side.

    :param windows: of the source and of the target; so are all pairs
    :param position: the offsets after which they were read
    :param counterpart: the offset of a record on the other side, or None if it has none
    :param is_compacted: whether the topic is compacted
    """
    kept = []
    for this, other in ((0, 1), (1, 0)):
        offsets = {r.offset for r in windows[other].records}
        until = 1 << 63 if windows[other].at_end else max(offsets, default=-1)
        records = []
        for record in windows[this].records:
            place = counterpart[this](record.offset)
            is_within = place is not None and position[other] <= place < until
            if not (is_compacted[other] and is_within and place not in offsets):
                records.append(record)
        kept.append(windows[this]._replace(records=tuple(records)))
    return kept[0], kept[1]


@dataclass(frozen=True)
class PackedPositions:
    """Positions and their windows, each window once."""

    windows: tuple[RecordWindow, ...]
    rows: tuple[tuple[PositionEvidence, int | None, int | None], ...]
    """Each position without its windows, and the indices of its source and target windows."""

    @classmethod
    def of(cls, positions: Iterable[PositionEvidence]) -> Self:
        """Return the positions with indices instead of windows."""
        indices: dict[RecordWindow | None, int | None] = {None: None}

        def index_of(window: RecordWindow | None) -> int | None:
            return indices.setdefault(window, len(indices) - 1)

        rows = [(PositionEvidence(*p[:-2]), index_of(p.source), index_of(p.target)) for p in positions]
        return cls(tuple(window for window in indices if window is not None), tuple(rows))

    @cached_property
    def unpacked(self) -> tuple[PositionEvidence, ...]:
        """The positions with their windows. Raises ValueError if a window is missing."""
        windows: dict[int | None, RecordWindow | None] = {None: None, **dict(enumerate(self.windows))}
        try:
            return tuple(PositionEvidence(*row[:-2], windows[s], windows[t]) for row, s, t in self.rows)
        except KeyError as error:
            raise ValueError(f"window {error} is missing") from error


NO_POSITIONS: Final = PackedPositions((), ())
