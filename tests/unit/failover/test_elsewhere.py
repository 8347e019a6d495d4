"""What other flows of a run's clusters have done: it is asked again before the run acts."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import ClusterUnreachable
from drkit.failover.core import reverse
from drkit.failover.core.context import Scope
from drkit.failover.core.read_cache import ReadCache
from drkit.failover.core.request import RunRequest
from drkit.flow_state.state import FlowState
from drkit.pair.view import PairRoles
from tests.support.errors import made


def test_a_cluster_that_did_not_answer_the_survey_is_not_waited_for_in_the_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings.model_validate({"clusters": {a: {"bootstrap_servers": f"{a}:9092"} for a in "abcd"}})
    asked: list[str] = []

    def connect(cluster: ClusterSettings) -> Any:
        asked.append(cluster.alias)
        if cluster.alias == "c":
            raise made(ClusterUnreachable, "no answer", where="c", evidence="", hint="")
        return SimpleNamespace()

    monkeypatch.setattr(reverse, "Cluster", SimpleNamespace(connect=connect))
    monkeypatch.setattr(reverse, "_read_state", lambda *_, **__: FlowState())
    flow = FlowSettings(source="a", target="b")
    scope, request = SimpleNamespace(topics={"orders": "orders"}), RunRequest(planned=True)
    context: Any = SimpleNamespace(
        settings=settings, flow=flow, kept=ReadCache(), scope=scope, request=request, source_error=""
    )
    reverse.refuse_moved_elsewhere(context)  # a run that is resumed has not asked yet
    assert asked == ["c", "d"]
    reverse.refuse_moved_elsewhere(context)
    assert asked == ["c", "d", "d"]
    reverse.work_elsewhere(context, ["orders"])  # the next survey
    assert asked == ["c", "d", "d", "c", "d"]


@dataclass(frozen=True)
class Left:
    """The context of a run that was left."""

    scope: Scope


def test_a_return_that_answered_the_last_failover_ends_no_switchover_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest promotion is on the source; only one that no return answered is later."""
    roles = PairRoles(away=frozenset({"later"}), moved_back=frozenset({"answered", "later"}))
    monkeypatch.setattr(reverse, "share_promotions", lambda _: ())
    monkeypatch.setattr(reverse, "pair_roles", lambda _: roles)
    left: Any = Left(Scope({t: t for t in ("answered", "later")}, (), whole_flow=True))
    assert [*reverse.without_moved_back(left, is_failover=True).scope.topics] == ["answered"]
    assert [*reverse.without_moved_back(left, is_failover=False).scope.topics] == []
