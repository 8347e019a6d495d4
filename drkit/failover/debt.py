"""A fence that is owed: the old primary did not answer when it was to be fenced.

Stored with the flow's state on the target, so that anybody who meets the old primary again knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from drkit.replicate.state_topic import StateTopic

FENCE_DEBT: Final = "fence-debt"
"""Key in the flow's state."""


@dataclass(frozen=True)
class Debt:
    """What is to be fenced at the first contact."""

    run_id: str
    term: int
    since_ms: int
    why: str
    topics: tuple[str, ...]
    """Of the source."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Debt:
        """As it stands in the state."""
        return cls(raw["run_id"], raw["term"], raw["since_ms"], raw["why"], tuple(raw["topics"]))


def debt_of(values: Mapping[str, Any]) -> Debt | None:
    """What is owed, from the flow's state."""
    found = values.get(FENCE_DEBT)
    return None if found is None else Debt.from_json(found)


def owe(state: StateTopic, debt: Debt) -> None:
    """Record a debt; that of earlier runs is part of it."""
    before = debt_of(state.values)
    topics = sorted({*debt.topics, *(before.topics if before else ())})
    state.put(FENCE_DEBT, {**asdict(debt), "topics": topics})


def settle(state: StateTopic, topics: Mapping[str, object] | tuple[str, ...]) -> None:
    """These topics are fenced, or need not be any more."""
    known = debt_of(state.values)
    if known is None:
        return
    left = [t for t in known.topics if t not in topics]
    state.put(FENCE_DEBT, {**asdict(known), "topics": left} if left else None)
