"""Which brokers are asked for their groups. No broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from drkit.kafka.groups.asking import NO_ANSWER, list_everywhere
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
