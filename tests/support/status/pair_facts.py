"""Facts of the two directions of a pair between clusters p and s, with one topic."""

from __future__ import annotations

from typing import Any

from drkit.flow_state.records import ReturnRecord, Role, RoleRecord
from drkit.pair.view import FenceSeen
from drkit.status.model import Fault, FlowStatus, Loss
from drkit.status.pair.facts import DirectionFacts, TopicLag
from drkit.status.pair.journal import RunUnderWay
from drkit.status.pair.judge import judge
from drkit.status.pair.model import PairTopic

RUN = RunUnderWay("f9", "failover", frozenset({"orders"}), "DRAIN")
RPO, TOPIC = 30.0, "orders"
COPIED = TopicLag(0, 0.0)
NOT_KNOWN = {TOPIC: TopicLag(None, None, "x")}


def direction(source: str = "p", target: str = "s", **facts: Any) -> DirectionFacts:
    usual: dict[str, Any] = {"running": True, "copies": {TOPIC: TOPIC}, "lags": {TOPIC: COPIED}}
    return DirectionFacts(source, target, **usual | facts)


def back(**facts: Any) -> DirectionFacts:
    """The way back, before anything was copied on it."""
    return direction("s", "p", **{"running": False, "copies": {}, "lags": None} | facts)


def promoted(run: str = "f1", at_ms: int = 1000, *, planned: bool = True) -> dict[str, RoleRecord]:
    return {TOPIC: RoleRecord(Role.PROMOTED, 1, run, at_ms, planned=planned or None)}


def returned(run: str = "f1") -> dict[str, ReturnRecord]:
    return {TOPIC: ReturnRecord(run, "r0", 2000)}


def only(first: DirectionFacts, second: DirectionFacts) -> PairTopic:
    [topic] = judge(first, second, RPO).topics
    return topic


STANDS: dict[str, Any] = {"fences": {TOPIC: FenceSeen.STANDS}}
OVER = direction(running=False, lags=None, promoted=promoted(), **STANDS)
"""The forward flow after a planned switchover."""


def status(role: str, *codes: str) -> FlowStatus:
    """What one of the flows says of itself, with faults of these codes."""
    loss = Loss(0, 0, 0.0, exact=True, source_seen_seconds=0.0)
    return FlowStatus("p->s", "p", "s", 5000, role, tuple(Fault(c, "") for c in codes), loss, None, None)


def codes(found: FlowStatus) -> list[str]:
    """The codes of its faults, in their order."""
    return [f.code for f in found.faults]
