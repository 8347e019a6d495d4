"""A request to any broker, while none is there."""

from __future__ import annotations

import asyncio
import pickle
import time
from types import SimpleNamespace
from typing import Any

from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownBrokerIdError,
)
import pytest

from drkit.errors import DrkitError
from drkit.kafka.raw import Future, RawCluster, RawError, RequestTimeout, RequestUnsupported


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


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KafkaConnectionError("reset"), RawError),
        (KafkaTimeoutError("late"), RequestTimeout),
        (IncompatibleBrokerVersion("old"), RequestUnsupported),
    ],
)
def test_an_error_of_the_library_becomes_one_of_drkits(error: KafkaError, kind: type[DrkitError]):
    failed = Future().failure(error)
    connection = SimpleNamespace(paused=False, send_request=lambda _, **__: failed)
    cluster: Any = SimpleNamespace(
        _manager=SimpleNamespace(get_connection=lambda _: connection), alias="standby"
    )
    answer = asyncio.run(RawCluster.queue(cluster, "a request", 7, time.monotonic() + 1))
    assert type(answer.exception) is kind
    assert (answer.exception.where, answer.exception.evidence) == ("standby", str(error))
    again = pickle.loads(pickle.dumps(answer.exception))  # noqa: S301  made right here
    assert (type(again), str(again)) == (kind, str(answer.exception)), "Spark passes it between processes"
