"""What a source partition ever held, and the verdict on its copy. Pure: it asks no cluster."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support.flows.compare import Seen, not_foreign

Content = tuple[Any, ...]
Place = tuple[int, int]
"""Generation of the source's history, and the offset in it."""
Range = tuple[int, int]
BAD = ("lost", "unnamed", "doubled", "reordered", "altered", "wrong", "wrong back", "wrong before")
"""Counts that are zero when a copy is exact."""


class Answers(Protocol):
    """What drkit answers about one partition: an offset, or the reason why it has no answer."""

    def forward(self, upstream: int) -> int | str: ...

    def backward(self, downstream: int) -> int | str: ...


@dataclass(slots=True, eq=False)
class Record:
    """One record of the source."""

    place: Place
    content: Content
    certain: bool = True
    """False: nothing says whether its transaction was committed."""
    destroyed: bool = False
    """The source lost it after it was written: an unclean election."""

    @property
    def offset(self) -> int:
        return self.place[1]


def identity(content: Content) -> object:
    """The header `id` where a record has one, else its key."""
    return dict(content[2]).get("id", content[0])


@dataclass(slots=True)
class History:
    """All records that one source partition ever held, in the order in which they were written.

    Filled from what consumers read and from producers' delivery reports; both may name the same record.
    """

    records: dict[Place, Record] = field(default_factory=dict)
    _by_identity: dict[object, list[Record]] = field(default_factory=dict)
    _current: dict[int, Record] = field(default_factory=dict)
    generation: int = 0

    def take(self, offset: int, content: Content, *, certain: bool = True) -> None:
        """Take a record that the source holds or held."""
        known = self._current.get(offset)
        if known is not None:
            assert known.content == content, f"source offset {offset} held {known.content}, now {content}"
            known.certain |= certain
            return
        new = Record((self.generation, offset), content, certain)
        self.records[new.place] = self._current[offset] = new
        self._by_identity.setdefault(identity(content), []).append(new)

    def read(self, theirs: Iterable[Seen]) -> None:
        """Take what a consumer read."""
        for seen in theirs:
            self.take(seen.offset, seen.content)

    def lost_tail(self, start: int, left: Sequence[Seen]) -> int:
        """Mark what an unclean election destroyed; returns how many records.

        :param start: first offset of the source's log
        :param left: what a consumer reads after the election
        """
        there = {s.offset: s.content for s in left}
        gone = [o for o, r in self._current.items() if o >= start and there.get(o) != r.content]
        for offset in gone:
            self._current.pop(offset).destroyed = True
        self.generation += 1
        return len(gone)

    def align(self, ours: Sequence[Seen], count: Counter[str]) -> list[Record | None]:
        """The source's record of each record of the target; what has none is counted."""
        used, last, out = set[Place](), (-1, -1), list[Record | None]()
        for seen in ours:
            known = self._by_identity.get(identity(seen.content), ())
            same = sorted((r for r in known if r.content == seen.content), key=lambda r: r.place)
            free = [r for r in same if r.place not in used]
            after = [r for r in free if r.place > last]
            if not free:
                count["doubled" if same else "altered"] += 1
                out.append(None)
                continue
            if not after:
                count["reordered"] += 1
            found = (after or free)[0]
            last = max(last, found.place)
            used.add(found.place)
            out.append(found)
        return out

    def missing(self, copied: set[Place], copy: Copy) -> Counter[str]:
        """What the target does not hold: `lost` while the source does, `unnamed` where no event says so."""
        there, out = {s.offset for s in copy.theirs}, Counter[str]()
        begun = min((offset for generation, offset in copied if generation == self.generation), default=0)
        newest = {r.content[0]: r.place for _, r in sorted(self.records.items())} if copy.compacted else {}
        for place, record in self.records.items():
            if place in copied:
                continue
            superseded = newest.get(record.content[0], place) > place
            if record.offset in there and self._current.get(record.offset) is record:
                out["cleaned" if superseded and copy.both_compact else "lost"] += 1
            elif not record.certain or superseded:
                continue
            elif record.destroyed:
                out["destroyed" if copy.diverged else "unnamed"] += 1
            elif any(first <= record.offset < last for first, last in copy.gaps):
                out["gone"] += 1
            elif record.offset < begun and place[0] == self.generation:
                out["before the copy"] += 1  # a partition is copied from where the source begins then
            else:
                out["unnamed"] += 1
        return out


@dataclass(slots=True)
class Copy:
    """One partition as it is at the end."""

    theirs: Sequence[Seen]
    ours: Sequence[Seen]
    answers: Answers
    source_end: int
    target_end: int
    gaps: Sequence[Range] = ()
    """Source offsets that events name as removed before they were copied."""
    diverged: bool = False
    """An event names that the source lost its tail."""
    compacted: bool = False
    """The source compacts: records may be gone that a later one of their key supersedes."""
    both_compact: bool = False
    """So does the target."""


def verdict(history: History, copy: Copy, asked: Iterable[tuple[int, int]] = ()) -> Counter[str]:
    """Count what is wrong with a copy, and how many positions were looked at.

    :param asked: source and target offsets of answers that were given while the copy went on
    """
    count, ours = Counter[str](), not_foreign(copy.ours)
    aligned = history.align(ours, count)
    copied = {r.place for r in aligned if r is not None}
    count += history.missing(copied, copy)
    pairs = [(r, s) for r, s in zip(aligned, ours, strict=True) if r is not None and not r.destroyed]
    forward = _Forward(sorted(pairs, key=lambda p: p[0].offset), ours, copy.target_end)
    for upstream in range(copy.source_end + 1):
        answer = copy.answers.forward(upstream)
        if isinstance(answer, str):
            count["unavailable"] += 1
        else:
            count["exact" if forward.right(upstream, answer) else "wrong"] += 1
    for upstream, downstream in asked:
        count["exact before" if forward.right(upstream, downstream) else "wrong before"] += 1
    _backward(copy, pairs, count)
    count["records"] = len(copied)
    return count


class _Forward:
    """Whether source offsets lead to the first copied record at or after them."""

    def __init__(self, pairs: list[tuple[Record, Seen]], ours: list[Seen], target_end: int) -> None:
        self._pairs, self._ours, self._target_end = pairs, ours, target_end
        self._ups, self._downs = [r.offset for r, _ in pairs], [s.offset for s in ours]

    def right(self, upstream: int, downstream: int) -> bool:
        wanted, at = bisect_left(self._ups, upstream), bisect_left(self._downs, downstream)
        if wanted < len(self._pairs):
            return at < len(self._ours) and self._ours[at].content == self._pairs[wanted][1].content
        return downstream <= self._target_end and (not self._pairs or downstream > self._pairs[-1][1].offset)


def _backward(copy: Copy, pairs: list[tuple[Record, Seen]], count: Counter[str]) -> None:
    """Every target offset leads back to the record whose copy a consumer reads first from there."""
    downs = [s.offset for _, s in pairs]
    ups = sorted(r.offset for r, _ in pairs)
    for downstream in range(copy.target_end + 1):
        answer = copy.answers.backward(downstream)
        if isinstance(answer, str):
            count["unavailable back"] += 1
            continue
        wanted, at = bisect_left(downs, downstream), bisect_left(ups, answer)
        if wanted < len(pairs):
            left = copy.theirs[0].offset if copy.theirs else copy.source_end
            offset = pairs[wanted][0].offset
            right = (at < len(ups) and ups[at] == offset) or offset < answer <= left
        else:
            right = not ups or answer > ups[-1]
        count["exact back" if right else "wrong back"] += 1


def total(counts: Mapping[object, Counter[str]]) -> Counter[str]:
    return sum(counts.values(), Counter[str]())
