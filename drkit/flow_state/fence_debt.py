"""What a failover owes a primary that did not answer: to be fenced, or to have its fence lifted.

Recorded in the flow's state on the target, for the first contact with the primary.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
import shlex

from drkit.flow_state.records import FenceDebt, PendingLift
from drkit.flow_state.topic import StateTopic


def owe(state: StateTopic, debt: FenceDebt) -> None:
    """Record a pending fence; the topics of an earlier one are added."""
    before = state.get(FenceDebt)
    topics = sorted({*debt.topics, *(before.topics if before is not None else ())})
    state.put(replace(debt, topics=tuple(topics)))


def settle(state: StateTopic, topics: Collection[str]) -> None:
    """Take topics off the pending fence: they are fenced, or need not be any more."""
    known = state.get(FenceDebt)
    if known is None:
        return
    if left := tuple(t for t in known.topics if t not in topics):
        state.put(replace(known, topics=left))
    else:
        state.delete(FenceDebt)


def lift_later(state: StateTopic, lift: PendingLift) -> None:
    """Record that fences are to be lifted at the first contact; the topics of an earlier record are added."""
    before = state.get(PendingLift)
    topics = sorted({*lift.topics, *(before.topics if before is not None else ())})
    state.put(replace(lift, topics=tuple(topics)))


def lift_no_more(state: StateTopic, topics: Collection[str]) -> None:
    """Take topics off the pending lift: their fence was lifted, or another failover needs it."""
    known = state.get(PendingLift)
    if known is None:
        return
    if left := tuple(t for t in known.topics if t not in topics):
        state.put(replace(known, topics=left))
    else:
        state.delete(PendingLift)


def paid_with(flow: str) -> str:
    """The command that puts up a pending fence, and lifts one whose lift is pending.

    :param flow: its name
    """
    return shlex.join(["drkit", "fence", "pay", "--flow", flow])
