"""The evidence that steps pass on in the journal. Partitions are texts: ``topic-0``."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class FenceEvidence(TypedDict):
    """Evidence of FENCE."""

    proven: bool
    """Whether every partition's leader refused a client's canary: no write is acknowledged any more."""
    how: str
    """``acl``, ``max.message.bytes``, ``stopped`` (a hook of the site) or ``debt``: the fence is pending."""
    debt: str
    """Why the fence is pending until the first contact; empty when it is proven."""
    details: NotRequired[Any]


class FreezeEvidence(TypedDict):
    """Evidence of FREEZE."""

    proven: bool
    """Whether every partition's leader refuses drkit's older writers."""
    details: NotRequired[Any]


class LossEvidence(TypedDict):
    """Evidence of DRAIN: records that are not on the target and will not be."""

    drained: bool
    """Whether the copy reached the end of every partition, and that end cannot move."""
    exact: bool
    """Whether records were counted on a source that answers; else `partitions` has the first lost offsets."""
    records: int | None
    """Number of lost records, with `held_back`."""
    held_back: int
    """Upper bound on records above the last stable offset: not copied, since a transaction was open."""
    held_acknowledged: int
    """Upper bound on those of `held_back` not known to belong to an undecided transaction."""
    seconds: float | None
    """Age of the oldest lost record."""
    partitions: list[dict[str, Any]]
    statement: str
