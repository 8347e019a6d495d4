"""Pending work of a failover on a primary that did not answer: to set its fence, or to lift it.

Recorded in the flow's state on the target, for the first contact with the primary.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from drkit.flow_state.records import PendingFence, PendingLift
from drkit.flow_state.topic import StateTopic
from drkit.next_command import typed

Due = TypeVar("Due", PendingFence, PendingLift)


def owe(state: StateTopic, due: PendingFence | PendingLift) -> None:
    """Record what is due at the first contact; the topics of an earlier record are added."""
    before = state.get(type(due))
    topics = sorted({*due.topics, *(before.topics if before is not None else ())})
    state.put(replace(due, topics=tuple(topics)))


def settle(state: StateTopic, kind: type[Due], topics: Collection[str]) -> None:
    """Remove topics from the pending record: the work is done, or no longer wanted."""
    known = state.get(kind)
    if known is None or set(known.topics).isdisjoint(topics):
        return
    if left := tuple(t for t in known.topics if t not in topics):
        state.put(replace(known, topics=left))
    else:
        state.delete(kind)


def paid_with(flow: str) -> str:
    """The command that sets a pending fence, and lifts one whose lift is pending.

    :param flow: its name
    """
    return typed("drkit", "fence", "pay", "--flow", flow)
