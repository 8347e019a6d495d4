"""What steps tell each other: the shape of the evidence in the journal. Partitions are texts: ``topic-0``."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class FenceEvidence(TypedDict):
    """Of FENCE."""

    proven: bool
    """A canary of a client was refused on every partition's leader: nothing acknowledges writes any more."""
    how: str
    """``acl``, ``max.message.bytes``, ``stopped`` (a hook of the site) or ``debt``: nothing could be done."""
    debt: str
    """Why the fence is still owed, to be paid at the first contact; empty when it is proven."""
    details: NotRequired[Any]


class FreezeEvidence(TypedDict):
    """Of FREEZE."""

    proven: bool
    """Every partition's leader refuses our older writers."""
    details: NotRequired[Any]


class LossEvidence(TypedDict):
    """Of DRAIN: what is not on the target and will not be."""

    drained: bool
    """The copy reached the end of every partition, and that end cannot move."""
    exact: bool
    """Counted on a source that answers; else `partitions` tells from where on everything is missing."""
    records: int | None
    """With those that are held back."""
    held_back: int
    """Records above the last stable offset, at the most: not copied, since a transaction was open."""
    held_acknowledged: int
    """Of them those that are not known to belong to an undecided transaction, at the most."""
    seconds: float | None
    """Age of the oldest record that is lost."""
    partitions: list[dict[str, Any]]
    statement: str


class TranslateEvidence(TypedDict):
    """Of TRANSLATE."""

    frontiers: dict[str, int | None]
    """By source partition: its first offset that is not on the target; None: nothing was ever copied."""
    ends: dict[str, int]
    """By target partition: its end; what clients write begins there."""
    positions: dict[str, dict[str, list[int]]]
    """Group → target partition → [offset on the source, offset on the target]."""
    unavailable: dict[str, dict[str, str]]
    """Group → target partition → why nobody can say where it reads on."""
