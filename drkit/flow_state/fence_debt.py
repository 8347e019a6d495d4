"""A pending fence: the old primary did not answer when it was to be fenced, and may take writes.

Recorded in the flow's state on the target, so that whoever meets the old primary again knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
import shlex

from drkit.flow_state.records import FenceDebt
from drkit.flow_state.topic import StateTopic


def owe(state: StateTopic, debt: FenceDebt) -> None:
    """Record a pending fence; the topics of an earlier one are added."""
    before = state.get(FenceDebt)
    topics = sorted({*debt.topics, *(before.topics if before is not None else ())})
    state.put(replace(debt, topics=tuple(topics)))


def settle(state: StateTopic, topics: Mapping[str, object] | tuple[str, ...]) -> None:
    """Take topics off the pending fence: they are fenced, or need not be any more."""
    known = state.get(FenceDebt)
    if known is None:
        return
    if left := tuple(t for t in known.topics if t not in topics):
        state.put(replace(known, topics=left))
    else:
        state.delete(FenceDebt)


def paid_with(flow: str) -> str:
    """The command that puts up a pending fence.

    :param flow: its name
    """
    return shlex.join(["drkit", "fence", "pay", "--flow", flow])
