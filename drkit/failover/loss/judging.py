"""What the facts of a partition on both sides say of it. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.failover.loss.findings import DivergenceState
from drkit.kafka.reading.epochs import EpochEnd
from drkit.status.lag.source import Ends

_UNKNOWN_END: Final = -1


class Judged(NamedTuple):
    """A partition by the offsets alone."""

    found: DivergenceState
    first: int
    """The first offset of the tail that is left."""
    removed: int
    """How many offsets before it are gone."""


def judged(tail_from: int | None, log: Ends | None, *, same: bool) -> Judged:
    """Return what the offsets of a partition say.

    :param tail_from: first offset whose record the new primary does not have; None: it has none
    :param log: the current start and end of the partition; None: no log
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
    """Of the return, if it was aborted since; empty: it was not, or is not known."""

    @property
    def why(self) -> str:
        """The reason why records are not there, in words."""
        who = f"the return {self.run_id}, which was aborted," if self.run_id else "a return"
        return f"{who} has emptied it up to {self.up_to}"

    def share(self, found: Judged) -> int:
        """How many of the offsets that are gone it has deleted, at most: retention may have been faster."""
        begins = found.first - found.removed
        return max(0, min(found.first, self.up_to) - begins)


class EpochWord(NamedTuple):
    """What the old primary's leader epochs say of the copied records."""

    other_from: int | None
    """From here on its records before the frontier are of a later leader epoch: they were not copied."""
    doubt: str = ""
    """Why the epochs do not agree with the copy; empty: they do, or say nothing."""


NO_WORD: Final = EpochWord(None)


def epoch_word(epoch: int, answer: EpochEnd | None, known_to: int) -> EpochWord:
    """Return what the end of a leader epoch says.

    :param epoch: of the last copied record; −1: unknown
    :param answer: of the old primary about that epoch; None: it was not asked, or had no answer
    :param known_to: offset after the last copied record, or the log's end if that is earlier
    """
    if epoch < 0 or answer is None:
        return NO_WORD
    if answer.end == _UNKNOWN_END:
        return EpochWord(None, f"it has never heard of leader epoch {epoch}, of which records were copied")
    if answer.end < known_to:
        return EpochWord(answer.end, f"its leader epoch {epoch} ends at {answer.end}, before {known_to}")
    return NO_WORD
