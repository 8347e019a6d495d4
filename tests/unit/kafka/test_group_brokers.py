"""Which brokers are asked for their groups, and how long. No broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kafka.protocol.metadata import MetadataRequest
import pytest

from drkit.kafka import codes
from drkit.kafka.groups import asking
from drkit.kafka.groups.asking import NO_ANSWER, Answered, Coordinators, list_everywhere
from drkit.kafka.raw import RawError


class Cluster:
    """A cluster whose connections know the first broker, and the dead one; the second came back since."""

    def __init__(self, *, tells: bool = True) -> None:
        self.loop, self._tells = self, tells

    def nodes(self) -> list[int]:
        return [1, 9]

    async def together(self, do: Any, each: Any) -> list[Any]:
        return [await do(one) for one in each]

    async def sleep(self, _seconds: float) -> None:
        return

    async def send(self, request: Any, node: int | None = None, **_: object) -> Any:
        if isinstance(request, MetadataRequest):
            if not self._tells:
                raise RawError("none answers")
            return SimpleNamespace(
                cluster_id="c",
                topics=[],
                brokers=[SimpleNamespace(node_id=n, host="h", port=1) for n in (2, 1)],
            )
        if node not in {1, 2}:
            raise RawError("it is gone")
        return SimpleNamespace(error_code=0, groups=[f"of {node}"])


def listed(*, tells: bool) -> tuple[list[Any], int]:
    cluster: Any = Cluster(tells=tells)
    return asyncio.run(list_everywhere(cluster, patience=0.01))


def test_groups_of_a_broker_that_came_back_are_listed() -> None:
    assert listed(tells=True) == (["of 1", "of 2"], 0)


def test_without_an_answer_those_that_were_known_are_asked() -> None:
    assert listed(tells=False) == (["of 1"], NO_ANSWER)


class Coordinated(Cluster):
    """A cluster where the coordinator of some groups is away."""

    def __init__(self, *away: str) -> None:
        super().__init__()
        self.away, self.away_groups, self.questions = set(away), set[str](), 0

    async def send(self, request: Any, *_: object, **__: object) -> Any:
        self.questions += 1
        gone = codes.COORDINATOR_NOT_AVAILABLE
        errors = {key: gone if key in self.away else 0 for key in request.coordinator_keys}
        found = [SimpleNamespace(key=key, error_code=error, node_id=1) for key, error in errors.items()]
        return SimpleNamespace(coordinators=found)

    async def some_at_once(self, do: Any, each: Any, _most: int) -> list[Any]:
        return await self.together(do, each)


def test_a_coordinator_that_stayed_away_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look of a failover waited for it as long as the first one, while clients had no cluster."""
    cluster: Any = Coordinated("lost")
    seconds = iter(range(1000))
    monkeypatch.setattr(asking, "monotonic", lambda: next(seconds))

    async def answer(_node: int, names: list[str]) -> dict[str, Answered[str]]:
        return {name: Answered(0, "here") for name in names}

    def asked() -> tuple[dict[str, str | None], int]:
        cluster.questions = 0
        found = asyncio.run(Coordinators(cluster).ask(["well", "lost"], answer, per_request=9))
        return {group: one.value for group, one in found.items()}, cluster.questions

    answers, questions = asked()
    assert (answers, questions > 10) == ({"well": "here", "lost": None}, True), "it may be back soon"
    assert asked() == ({"well": "here", "lost": None}, 1)
    cluster.away.clear()
    assert asked() == ({"well": "here", "lost": "here"}, 1)
    cluster.away.add("lost")
    assert asked()[1] > 10, "it was back"
