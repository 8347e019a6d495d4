"""Which topics go home, and what is said where none is left."""

from __future__ import annotations

import pytest

from drkit.config import FlowSettings
from drkit.failover.way_home import Ways, going_home, not_in_step, nothing_to_do
from drkit.status.pair.model import PairState, PairTopic

THERE, BACK = FlowSettings(source="a", target="b"), FlowSettings(source="b", target="a")
PAIR = (
    PairTopic("orders", "orders", PairState.PROTECTED, active="b"),
    PairTopic("audit", "audit", PairState.UNPROTECTED, active="b"),
    PairTopic("home", "home", PairState.UNPROTECTED, active="a"),
)


@pytest.mark.parametrize(
    ("named", "going", "left"),
    [
        ((), {"orders", "audit", "home"}, {"audit"}),
        (("orders",), {"orders"}, set()),
        (("audit", "home"), {"audit", "home"}, {"audit"}),
        (("none",), set(), set()),
    ],
)
def test_only_named_topics_are_looked_at(named: tuple[str, ...], going: set[str], left: set[str]):
    ways = Ways(THERE, BACK, frozenset(named))
    mine = going_home(PAIR, ways)
    assert {t.topic for t in mine} == going
    assert {t.topic for t in not_in_step(mine, BACK)} == left
    assert ways.has(t.topic for t in PAIR) is bool(going)
    assert not ways.has([])


def test_what_is_said_of_named_topics_is_of_these_alone():
    assert nothing_to_do(Ways(THERE, BACK)).evidence.startswith("no topic is active on b")
    said = nothing_to_do(Ways(THERE, BACK, frozenset({"orders", "audit"})))
    assert said.evidence.startswith("none of audit, orders is active on b")
