"""Which topics go home, and what is said where none is left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from drkit.config import FlowSettings
from drkit.errors import ClusterUnreachable, Refused
from drkit.failover import failback, service
from drkit.failover.failback import FlowPair, going_home, not_in_step, nothing_to_do, refuse_uncut
from drkit.failover.fencing.methods import ACL, SIZE
from drkit.failover.service import FailoverService
from drkit.status.pair.model import PairState, PairTopic
from tests.support.errors import coded, made

THERE, BACK = FlowSettings(source="a", target="b"), FlowSettings(source="b", target="a")
PAIR = (
    PairTopic("orders", "orders", PairState.PROTECTED, active="b"),
    PairTopic("audit", "audit", PairState.UNPROTECTED, active="b"),
    PairTopic("home", "home", PairState.UNPROTECTED, active="a"),
    PairTopic("cut", "cut", PairState.UNPROTECTED, active="b", lacks_history=True),
)


@pytest.mark.parametrize(
    ("named", "going", "left"),
    [
        ((), {"orders", "audit", "home", "cut"}, {"audit"}),
        (("orders",), {"orders"}, set()),
        (("audit", "home"), {"audit", "home"}, {"audit"}),
        (("none",), set(), set()),
    ],
)
def test_only_named_topics_are_looked_at(named: tuple[str, ...], going: set[str], left: set[str]):
    ways = FlowPair(THERE, BACK, frozenset(named))
    mine = going_home(PAIR, ways)
    assert {t.topic for t in mine} == going
    assert {t.topic for t in not_in_step(mine, BACK)} == left
    assert ways.has(t.topic for t in PAIR) is bool(going)
    assert not ways.has([])


def test_what_is_said_of_named_topics_is_of_these_alone():
    assert nothing_to_do(FlowPair(THERE, BACK)).evidence.startswith("no topic is active on b")
    reason = nothing_to_do(FlowPair(THERE, BACK, frozenset({"orders", "audit"})))
    assert reason.evidence.startswith("none of audit, orders is active on b")


class Opened:
    """A service whose switchover fences some topics by size."""

    def __init__(self, by_size: list[str] | None) -> None:
        self._by_size = by_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def switch_by_size(self, topics: list[str]) -> list[str]:
        if self._by_size is None:
            raise made(ClusterUnreachable, "b does not answer")
        return [t for t in topics if t in self._by_size]


@pytest.mark.parametrize(
    ("by_size", "named", "cut", "refused"),
    [
        (["audit", "orders"], (), "", "audit, orders"),
        (["audit", "orders"], ("orders",), "", "orders"),
        (["audit"], ("orders",), "", ""),
        (["audit", "orders"], (), "the listener is closed", ""),
        ([], (), "", ""),
        (None, (), "", ""),
    ],
    ids=["by size", "named", "another topic", "it was said", "by ACL", "unknown: the switchover says so"],
)
def test_clients_do_not_move_home_where_the_turn_after_it_would_be_refused(
    monkeypatch: pytest.MonkeyPatch, by_size: list[str] | None, named: tuple[str, ...], cut: str, refused: str
):
    moved = SimpleNamespace(returned={"orders": None, "audit": None})
    monkeypatch.setattr(failback, "moved_topics", lambda *_: moved)
    monkeypatch.setattr(failback, "FailoverService", lambda *_: Opened(by_size))
    settings: Any = None
    if not refused:
        refuse_uncut(settings, FlowPair(THERE, BACK, frozenset(named)), cut)
        return
    with pytest.raises(Refused, check=coded("switchover_fence_refuses_drkit")) as caught:
        refuse_uncut(settings, FlowPair(THERE, BACK, frozenset(named)), cut)
    assert caught.value.where == f"b: {refused}"
    assert 'then state how: --clients-cut "HOW"; or' in caught.value.hint


@pytest.mark.parametrize(
    ("method", "said", "found"),
    [
        (SIZE, {}, ["t"]),
        (ACL, {}, []),
        (None, {}, []),
        (SIZE, {"t": "said of an earlier turn, which this one replaces"}, ["t"]),
        (SIZE, {"other": "said of the flow"}, []),
    ],
)
def test_which_switchover_needs_a_word_about_clients(
    monkeypatch: pytest.MonkeyPatch, method: str | None, said: dict[str, str], found: list[str]
):
    """As its return sees it: what was said of another topic of the flow counts for all."""
    fence = SimpleNamespace(name=method) if method is not None else None
    monkeypatch.setattr(service, "FenceStep", lambda: SimpleNamespace(method=lambda _: fence))
    roles = {t: SimpleNamespace(clients_cut=cut) for t, cut in said.items()}
    monkeypatch.setattr(service, "promoted", lambda _: roles)
    desk: Any = SimpleNamespace(_flow=BACK, _new_context=lambda *_: None)
    assert FailoverService.switch_by_size(desk, ["t"]) == found
