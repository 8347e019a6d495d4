"""Which flow a command about a return, or about a fence, is for where none is named."""

from __future__ import annotations

import pytest

from drkit.cli import waiting_flow
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable, ConfigError, Usage
from drkit.flow_state.records import PendingFence, Role, RoleRecord
from drkit.flow_state.state import FlowState
from tests.support.errors import made, sentence

ALIASES = ("a", "b", "c", "d")
FLOWS = (("a", "b"), ("b", "a"), ("c", "d"))
DEBT = PendingFence("run7", 3, 1, "it was cut off", ("orders",))


@pytest.fixture
def settings() -> Settings:
    return Settings.model_validate(
        {
            "clusters": {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in ALIASES},
            "flows": [{"source": s, "target": t} for s, t in FLOWS],
        }
    )


@pytest.mark.parametrize(
    ("owing", "found"),
    [(("c->d",), "c->d"), ((), "a->b"), (("a->b", "c->d"), None), (("c->d", "a->b"), None)],
)
def test_the_flow_that_owes_a_fence_is_meant_before_one_that_waits(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, owing: tuple[str, ...], found: str | None
) -> None:
    """`drkit fence pay` said of another flow that nothing is owed, and the old primary stayed open."""

    def records_of(_settings: Settings, flow: FlowSettings) -> FlowState:
        if flow.name == "b->a":
            raise made(ClusterUnreachable, "it is dead", where="a", evidence="", hint="")
        state = FlowState()
        if flow.name in owing:
            state.take(DEBT.key().encode(), DEBT.encode())
        return state

    monkeypatch.setattr(waiting_flow, "records_of", records_of)
    monkeypatch.setattr(waiting_flow, "may_wait", lambda _settings, there, _back: there.name == "a->b")
    if found is None:
        with pytest.raises(
            ConfigError, match=sentence("several_flows_match", count=2, several="owe a fence, or its lift")
        ):
            waiting_flow.flow_that_owes(settings, None)
        return
    assert waiting_flow.flow_that_owes(settings, None).name == found
    assert waiting_flow.flow_that_owes(settings, "b->a").name == "b->a"


MOVED = RoleRecord(Role.PROMOTED, 1, "run7", 1000)


@pytest.mark.parametrize(
    ("promoted", "found"),
    [((), None), (("c->d",), "c->d"), (("a->b",), None)],
    ids=["nothing", "no flow back", "returned since"],
)
def test_with_nothing_pending_in_any_flow_none_is_meant(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, promoted: tuple[str, ...], found: str | None
) -> None:
    """`drkit fence pay` ended with 2, "which one do you mean?", where nothing is pending in any of them."""

    def records_of(_settings: Settings, flow: FlowSettings) -> FlowState:
        state = FlowState()
        if flow.name in promoted:
            state.take(MOVED.key("orders").encode(), MOVED.encode())
        return state

    monkeypatch.setattr(waiting_flow, "records_of", records_of)
    monkeypatch.setattr(waiting_flow, "may_wait", lambda *_: False)
    meant = waiting_flow.owing_flow(settings, None)
    assert (None if meant is None else meant.name) == found
    if found is None:
        with pytest.raises(Usage) as refused:
            waiting_flow.flow_that_owes(settings, None)
        assert refused.value.evidence == "none of them has a pending fence or waits for a return"


@pytest.mark.parametrize("dead", ["b->a", "c->d"])
def test_what_is_pending_on_a_silent_cluster_is_unknown_and_not_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, dead: str
) -> None:
    def records_of(_settings: Settings, flow: FlowSettings) -> FlowState:
        if flow.name == dead:
            raise made(ClusterUnreachable, "it is dead", where="", evidence="", hint="")
        return FlowState()

    monkeypatch.setattr(waiting_flow, "records_of", records_of)
    monkeypatch.setattr(waiting_flow, "may_wait", lambda *_: False)
    with pytest.raises(ClusterUnreachable, match="it is dead"):
        waiting_flow.owing_flow(settings, None)
