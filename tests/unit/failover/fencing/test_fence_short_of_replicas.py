"""A canary on a partition that lacks replicas in sync: the fence by size is proven all the same."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.failover.fencing import proof as writable
from drkit.failover.fencing.proof import _prove_once
from drkit.kafka.codes import INVALID_RECORD, MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS
from drkit.kafka.requests import ALL, PartitionLeader, TopicMetadata
from drkit.model import TopicPartition

AT = TopicPartition("orders", 0)
KNOWN = {"orders": TopicMetadata(0, UUID(int=1), {0: PartitionLeader(1, 0)})}


class Leader:
    """A leader that is alone in sync where two replicas have to be: in the order of Kafka's own checks."""

    def __init__(self, *, fenced: bool) -> None:
        self._code = MESSAGE_TOO_LARGE if fenced else INVALID_RECORD
        self.loop = self

    async def send(self, request: Any, _node: int, **_: object) -> Any:
        code = NOT_ENOUGH_REPLICAS if request.acks == ALL else self._code
        part = SimpleNamespace(index=0, error_code=code)
        return SimpleNamespace(responses=[SimpleNamespace(name="orders", partition_responses=[part])])

    async def together(self, do: Any, each: Any) -> list[Any]:
        return [await do(one) for one in each]

    def run(self, do: Any, *given: object) -> Any:
        return asyncio.run(do(*given))


@pytest.mark.parametrize("fenced", [False, True])
def test_a_leader_that_is_alone_refuses_by_its_fence_or_takes_a_record(
    monkeypatch: pytest.MonkeyPatch, *, fenced: bool
) -> None:
    async def known(*_: object) -> dict[str, TopicMetadata]:
        return KNOWN

    monkeypatch.setattr(writable, "metadata", known)
    leader: Any = Leader(fenced=fenced)
    proof = _prove_once(leader, ["orders"], frozenset({MESSAGE_TOO_LARGE}))
    assert proof.is_whole is fenced
    assert proof.taking == (frozenset() if fenced else {AT})
    assert writable.code_name(INVALID_RECORD) in proof.open.values() or fenced
    codes = asyncio.run(writable.write_codes(leader, ["orders"]))
    assert codes == {AT: NOT_ENOUGH_REPLICAS}, "whether producers with acks=all can write is another question"
