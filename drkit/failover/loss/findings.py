"""The findings of the comparison of an old primary with its copy, by partition and by group. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from drkit.counted import counted, first_of, verb
from drkit.kafka.reading.record_cursor import EpochEnd
from drkit.status.lag.source import Ends

UNKNOWN_END: Final = -1
"""Instead of the end of a leader epoch that a broker does not know."""
_SUMS: Final = ("records", "bytes", "removed", "emptied", "only_new")


class DivergenceState(StrEnum):
    """The state of a partition of the old primary, compared with its copy."""

    CLEAN = "clean"
    """Every record was copied."""
    DIVERGED = "diverged"
    """The partition has records that the new primary does not have."""
    REGRESSED = "regressed"
    """The partition ends before its last copied offset: it lost records that the new primary has."""
    REGROWN = "regrown"
    """Its records before the frontier are not those that were copied: it lost some and took others."""
    RECREATED = "recreated"
    """The topic was recreated under the same name: none of its records was copied."""
    GONE = "gone"
    """The partition does not exist any more."""
    MORE = "more"
    """The new primary does not have this partition."""
    UNKNOWN = "unknown"
    """The state is unknown; `why` has the reason."""


class CopyFate(StrEnum):
    """The fate of the copy on the new primary since its promotion."""

    KEPT = "kept"
    """It has everything that it had."""
    REGRESSED = "regressed"
    """It lost records that it had when it was promoted."""
    RECREATED = "recreated"
    """The topic was recreated: it has none of the copied records."""
    GONE = "gone"
    """The topic or the partition does not exist any more."""


ANOTHER_TOPIC: Final = {CopyFate.RECREATED: "was recreated", CopyFate.GONE: "is gone"}
"""The fate of a copy that is not the promoted topic, in words."""


class PartitionDivergence(NamedTuple):
    """One partition of the old primary."""

    topic: str
    partition: int
    found: DivergenceState
    lost_from: int
    """The begin of the divergent tail: the first offset whose record the new primary does not have.

    It is the first offset that was not copied, or an earlier one: `differs_from`, or where a copy that
    regressed ends. At or after `end` the tail is empty."""
    end: int | None = None
    """Its current last stable offset, or None without a log."""
    records: int = 0
    """Records in the tail."""
    bytes: int = 0
    removed: int = 0
    """Offsets from `lost_from` on that the old primary's retention removed since: lost, and not listed."""
    open_transaction: bool = False
    """Whether records after the end belong to an undecided transaction."""
    why: str = ""
    held_back: int = 0
    """Offsets between the end and the high watermark: more may diverge once the transaction is decided."""
    differs_from: int | None = None
    """The first offset whose record is not the copied one, or where such a record is missing, or None."""
    only_new: int = 0
    """Records on the new primary from before its promotion that the old primary does not have: the copies of
    records that it lost, and what others wrote there. Not counted where the topic is gone or was recreated;
    after 512 MiB a lower bound."""
    proven: bool = False
    """Whether the last records before the first offset that was not copied equal their copies by content, and
    the old primary's leader epochs agree. Where the old primary has no such record, there is nothing to
    compare: True."""
    copy: CopyFate = CopyFate.KEPT
    """The fate of the copy on the new primary since its promotion."""
    only_new_from: int | None = None
    """Offset on the new primary of the first record in `only_new`; None if none, or unknown."""
    copy_end: int | None = None
    """The current end of a copy that regressed, on the new primary."""
    exact_to: int | None = None
    """The offset before which every record belongs to the tail; later records of drkit's own producers were
    copied from the new primary. None if the tail was not read."""
    emptied: int = 0
    """Offsets from `lost_from` on that a return has deleted there: they are in its export."""
    outlived: int | None = 0
    """Keys of a compacted topic that the old primary has and the new one has not: clients deleted them there,
    and compaction has removed the tombstones. Counted where nothing else differs; None if unknown."""

    @property
    def is_clean(self) -> bool:
        """Return whether both sides have the same records from before the promotion."""
        same = self.found is DivergenceState.CLEAN and self.copy is CopyFate.KEPT
        return same and not (self.open_transaction or self.only_new or self.emptied or self.outlived != 0)

    @property
    def in_words(self) -> str:
        """Its state, with further differences, in words."""
        copy = f"its copy is {self.copy}" if self.copy is not CopyFate.KEPT else ""
        only_new = f"{self.only_new:,} only on the new primary" if self.only_new else ""
        is_open = "an open transaction" if self.open_transaction else ""
        return ", ".join(
            filter(None, (self.found.value, self.why, copy, only_new, is_open, self.outlived_in_words))
        )

    @property
    def outlived_in_words(self) -> str:
        """A note on keys that live on, or empty."""
        if self.outlived is None:
            return "keys that were deleted on the new primary may live on"
        if not self.outlived:
            return ""
        return f"{counted(self.outlived, 'key')} deleted on the new primary {verb(self.outlived, 'lives')} on"


class CommitKind(StrEnum):
    """The meaning of a group's committed offset on the old primary."""

    BEYOND = "beyond"
    """After the first offset that was not copied: the group processed records of the tail."""
    SUPERSEDED = "superseded"
    """The failover translated this position."""
    OTHER = "other"
    """The failover translated another position, or none: it worked from an earlier checkpoint."""


class OldCommit(NamedTuple):
    """A group's committed offset in a promoted topic of the old primary."""

    group: str
    topic: str
    partition: int
    offset: int
    kind: CommitKind
    translated: int | None = None
    """The offset of this group and partition on the old primary that the failover translated, or None."""
    beyond: int = 0
    """Records of the tail before the commit, which the group processed; without those that are removed."""


@dataclass(frozen=True)
class Divergence:
    """All partitions, or the reason why they could not be read."""

    flow: str
    tails: tuple[PartitionDivergence, ...]
    unanswered: str = ""
    """The reason why a cluster did not answer, or empty if both did."""
    owed: str = ""
    """The reason why its fence is pending: then it may take more records. Empty without a pending fence."""
    uncopied: tuple[PartitionDivergence, ...] = ()
    """Every partition of topics that the flow selects and has never copied: all records are the tail.

    None of these is in `tails`."""
    commits: tuple[OldCommit, ...] = ()
    """Committed offsets on the old primary in the promoted topics."""
    commits_unknown: str = ""
    """The reason why the committed offsets are unknown, or empty."""
    returned: tuple[str, ...] = ()
    """Promoted topics that the flow in the other direction copies back already: they are not compared."""

    @property
    def is_known(self) -> bool:
        """Return whether every partition could be read."""
        return not self.unanswered and not any(t.found is DivergenceState.UNKNOWN for t in self._all)

    @property
    def is_clean(self) -> bool:
        """Return whether nothing diverges."""
        return self.is_known and all(t.is_clean for t in self._all)

    @property
    def _all(self) -> tuple[PartitionDivergence, ...]:
        return self.tails + self.uncopied

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON data."""
        known = self.is_known
        return {
            "flow": self.flow,
            "statement": self.statement(),
            "clean": self.is_clean,
            "known": known,
            **{name: sum(getattr(t, name) for t in self._all) if known else None for name in _SUMS},
            "proven": known and all(t.proven for t in self.tails),
            "unanswered": self.unanswered,
            "fence_owed": self.owed,
            "partitions": [t._asdict() for t in self.tails],
            "uncopied": [t._asdict() for t in self.uncopied],
            "commits": [c._asdict() for c in self.commits],
            "commits_unknown": self.commits_unknown,
            "returned": list(self.returned),
        }

    def statement(self) -> str:
        """Return the result in one sentence."""
        old, _, new = self.flow.partition("->")
        if self.unanswered:
            return f"{old} does not answer: {self.unanswered}"
        if unknown := [t for t in self._all if t.found is DivergenceState.UNKNOWN]:
            return f"not known of {counted(len(unknown), 'partition')}: {_places(unknown)}"
        if self.is_clean:
            return f"{old} has nothing that was not copied ({counted(len(self.tails), 'partition')})"
        bad = [t for t in self._all if not t.is_clean]
        records, only_new = sum(t.records for t in self._all), sum(t.only_new for t in self._all)
        held = sum(t.held_back for t in self._all)
        more = f"; {counted(only_new, 'record', 'is')} only on {new}" if only_new else ""
        more += f"; open transactions hold back up to {held:,} more" if held else ""
        more += "; its fence is pending, so more may come" if self.owed else ""
        return f"{counted(records, 'record', 'is')} only on {old}: {_places(bad)}{more}"


def _places(tails: Iterable[PartitionDivergence]) -> str:
    return first_of(f"{t.topic}-{t.partition} from {t.lost_from} ({_words(t)})" for t in tails)


def _words(tail: PartitionDivergence) -> str:
    if tail.found is DivergenceState.UNKNOWN:
        return tail.why
    return tail.in_words


class Judged(NamedTuple):
    """A partition by the offsets alone."""

    found: DivergenceState
    first: int
    """The first offset of the tail that is left."""
    removed: int
    """Number of offsets before it that are gone."""


def judged(tail_from: int | None, log: Ends | None, *, same: bool) -> Judged:
    """Return the state of a partition by its offsets.

    :param tail_from: first offset whose record the new primary does not have, or None for the log start
    :param log: the current start and end of the partition, or None without a log
    :param same: whether it is the topic that was copied
    """
    if log is None:
        return Judged(DivergenceState.GONE, tail_from or 0, 0)
    if not same:
        return Judged(DivergenceState.RECREATED, log.start, 0)
    start = log.start if tail_from is None else tail_from
    if log.end < start:
        return Judged(DivergenceState.REGRESSED, start, 0)
    first = min(max(start, log.start), log.end)
    found = DivergenceState.CLEAN if start == log.end else DivergenceState.DIVERGED
    return Judged(found, first, first - start)


class Emptied(NamedTuple):
    """A partition of the old primary that a return has emptied."""

    up_to: int
    run_id: str = ""
    """The run of the failback, if it was aborted since; else, or if unknown, empty."""

    @property
    def why(self) -> str:
        """The reason why records are not there, in words."""
        who = f"the return {self.run_id}, which was aborted," if self.run_id else "a return"
        return f"{who} has emptied it up to {self.up_to}"

    def share(self, found: Judged) -> int:
        """Return the most missing offsets that it can have deleted: retention may have been faster."""
        begins = found.first - found.removed
        return max(0, min(found.first, self.up_to) - begins)


class EpochWord(NamedTuple):
    """The evidence of the old primary's leader epochs on the copied records."""

    other_from: int | None
    """First offset before the frontier of a later leader epoch: from it on, records were not copied."""
    doubt: str = ""
    """The reason why the epochs do not agree with the copy, or empty if they do or are unknown."""


NO_WORD: Final = EpochWord(None)


def epoch_word(epoch: int, answer: EpochEnd | None, known_to: int) -> EpochWord:
    """Return the evidence of the end of a leader epoch.

    :param epoch: of the last copied record; −1: unknown
    :param answer: of the old primary about that epoch, or None without an answer
    :param known_to: offset after the last copied record, or the log's end if that is earlier
    """
    if epoch < 0 or answer is None:
        return NO_WORD
    if answer.end == UNKNOWN_END:
        return EpochWord(None, f"it has never heard of leader epoch {epoch}, of which records were copied")
    if answer.end < known_to:
        return EpochWord(answer.end, f"its leader epoch {epoch} ends at {answer.end}, before {known_to}")
    return NO_WORD
