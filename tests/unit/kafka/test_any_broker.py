"""A request to any broker, while none is there."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

from kafka.errors import UnknownBrokerIdError
import pytest

from drkit.kafka.raw import Future, RawCluster, RequestTimeout


class Manager:
    """Connections of a cluster whose only broker, 7, is known after some looks."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self.cluster = SimpleNamespace(request_update=lambda: None)

    def least_loaded_node(self) -> int | None:
        self._looks -= 1
        return 7 if self._looks < 0 else None

    def get_connection(self, node: int | None) -> Any:
        if node is None:
            raise UnknownBrokerIdError(node)
        return SimpleNamespace(
            paused=False, send_request=lambda request, **_: Future().success(f"{request} to {node}")
        )


async def no_pause(_seconds: float) -> None:
    """Return at once."""


def ask(looks: int, seconds: float) -> Any:
    loop = SimpleNamespace(sleep=no_pause)
    cluster: Any = SimpleNamespace(_manager=Manager(looks), alias="standby", loop=loop)
    deadline = time.monotonic() + seconds
    return asyncio.run(RawCluster.queue(cluster, "a request", None, deadline)).value


def test_it_goes_to_a_broker_that_is_back():
    assert ask(looks=3, seconds=0.5) == "a request to 7"


def test_without_one_it_ends_in_time():
    with pytest.raises(RequestTimeout, match="any broker of standby") as silent:
        ask(looks=10**9, seconds=0.05)
    assert silent.value.where == "standby"
