"""A fence that is owed: the old primary did not answer when it was to be fenced.

Stored with the flow's state on the target, so that anybody who meets the old primary again knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from drkit.replicate.fence_debt import FENCE_DEBT, Debt, debt_of
from drkit.replicate.state_topic import StateTopic

__all__ = ["Debt", "debt_of", "owe", "settle"]


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
