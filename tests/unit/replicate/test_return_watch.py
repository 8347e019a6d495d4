"""Which returns a replicator begins or continues by itself: those that need no decision."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from drkit.config import FlowSettings, Settings
from drkit.failover import watches as return_watch
from drkit.failover.watches import ReturnWatch
from drkit.journal.machine import FAILOVER, RETURN

PAIR = Settings.model_validate({
    "clusters": {"p": {"bootstrap_servers": "p:9092"}, "s": {"bootstrap_servers": "s:9092"}},
    "flows": [{"source": a, "target": b, "topics": [".*"]} for a, b in ("ps", "sp")],
})  # fmt: skip


class Service:
    """What is asked of it; the run that is under way is given."""

    run: Any = None
    said: tuple[Any, ...] = ()

    def __init__(self, _settings: Settings, flow: FlowSettings) -> None:
        assert flow.source == "p"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    @property
    def under_way(self) -> Any:
        return type(self).run

    def begin_return(self, _request: object, *, topics: list[str]) -> dict[str, Any]:
        type(self).said = ("begin", topics)
        return {"run": "r", "topics": topics}

    def resume(self, _request: object) -> dict[str, Any]:
        type(self).said = ("resume",)
        return {"run": "r", "topics": []}


def under_way(table: Any, *topics: str) -> Any:
    return SimpleNamespace(table=table, scope={"topics": dict.fromkeys(topics, "")})


@pytest.mark.parametrize(
    ("due", "run", "said"),
    [
        ([], None, ()),
        (["a"], None, ("begin", ["a"])),
        (["a"], under_way(RETURN, "a"), ("resume",)),
        (["a"], under_way(RETURN, "a", "b"), ()),
        (["a"], under_way(FAILOVER, "a"), ()),
    ],
    ids=["nothing waits", "it begins", "it continues", "b is not decided", "of a failover"],
)
def test_only_switched_topics_return_by_themselves(
    monkeypatch: pytest.MonkeyPatch, due: list[str], run: Any, said: tuple[Any, ...]
) -> None:
    desk: Any = type("Desk", (Service,), {"run": run, "said": ()})
    monkeypatch.setattr(return_watch, "switched", lambda *_: due)
    monkeypatch.setattr(return_watch, "FailoverService", desk)
    there, back = PAIR.flows
    ReturnWatch(PAIR, there, back).look()
    assert desk.said == said
