"""What COMPARE has found, as the journal keeps it, and what follows from it for a partition's log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.counted import counted
from drkit.failover.core.choices import Method
from drkit.failover.loss.findings import CopyFate, DivergenceState, PartitionDivergence
from drkit.model import TopicPartition

_FIELDS: Final = frozenset(PartitionDivergence._fields)


class Unsound(NamedTuple):
    """A partition whose records cannot simply stay where they are, and why."""

    tail: PartitionDivergence
    why: str

    @property
    def at(self) -> TopicPartition:
        """The partition of the old primary."""
        return TopicPartition(self.tail.topic, self.tail.partition)

    @property
    def has_tail(self) -> bool:
        """Whether the old primary has records there that the new one has not."""
        return self.tail.records > 0

    @property
    def span(self) -> tuple[int, int]:
        """The offsets of these records, half open, with those that retention has removed."""
        end = self.tail.end or 0
        return min(self.tail.lost_from, end), end


def to_json(found: Iterable[Unsound]) -> list[dict[str, Any]]:
    """Partitions as plain data, for the journal."""
    return [{**u.tail._asdict(), "unsound": u.why} for u in found]


def of_json(raw: Iterable[Mapping[str, Any]]) -> list[Unsound]:
    """Partitions from the journal's data; what a later version has added is left out."""
    found = []
    for entry in raw:
        fields = {k: v for k, v in entry.items() if k in _FIELDS}
        fields |= {
            "found": DivergenceState(fields["found"]), "copy": CopyFate(fields.get("copy", CopyFate.KEPT)),
        }  # fmt: skip
        found.append(Unsound(PartitionDivergence(**fields), str(entry["unsound"])))
    return found


def why_unsound(tail: PartitionDivergence, *, proven: bool, copied_back: int | None) -> str:
    """Why the new primary's records may not simply follow those of the old one; empty: they may.

    :param proven: nothing more needs to be proven: a switchover has fenced the old primary
    :param copied_back: offset after the copied records of one that came from the new primary; None: none did
    """
    if tail.found is not DivergenceState.CLEAN:
        return tail.why or tail.found.value
    if tail.copy is not CopyFate.KEPT:
        return f"its copy is {tail.copy}"
    if tail.only_new:
        return f"it does not have {counted(tail.only_new, 'record')} of the new primary"
    if copied_back is not None:
        return f"a record was copied back to it before, at {copied_back}"
    if tail.outlived != 0 or not (proven or tail.proven):
        unproven = "that it has what was copied could not be proven"
        return "; ".join(filter(None, (tail.why, tail.outlived_in_words))) or unproven
    return ""


def method_of(chosen: str | None, *, is_sound: bool) -> Method:
    """How a partition's log is brought in step.

    :param chosen: for its topic; None: nothing
    :param is_sound: whether the new primary's records may simply follow
    """
    if chosen is None or (chosen in {Method.TRIM, Method.KEEP} and is_sound):
        return Method.DELTA if is_sound else Method.REBUILD
    return Method(chosen)
