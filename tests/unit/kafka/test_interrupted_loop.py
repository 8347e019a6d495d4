"""A signal that interrupts the loop of the raw connections reaches its caller, whatever task is running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
import signal
from types import SimpleNamespace
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.transport import KafkaSSLTransport
import pytest

from drkit.kafka.raw import EventLoop
from drkit.kafka.transport import GatedTlsTransport


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with closing(EventLoop()) as loop:
        yield loop
    signal.signal(signal.SIGINT, before)


async def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)


def test_in_a_task_that_nothing_waits_for(loop: EventLoop) -> None:
    """Reading from a connection is one; the library logged the interrupt, and the drill went on."""
    loop.net.call_soon(interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(loop.sleep, 0.1)


def test_in_a_task_whose_result_nothing_asks_for(loop: EventLoop) -> None:
    loop.spawn(interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(loop.sleep, 0.1)


def test_beside_a_task_that_failed_before(loop: EventLoop) -> None:
    async def failed() -> None:
        raise ValueError

    async def ask(each: Any) -> None:
        await each()

    with pytest.raises(KeyboardInterrupt):
        loop.run(loop.together, ask, (failed, interrupted))


def test_the_loop_works_on_after_an_interrupt(loop: EventLoop) -> None:
    """A process that is interrupted closes its connections over the same loop."""
    loop.net.call_soon(interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(loop.sleep, 0.1)

    async def answer() -> int:
        return 42

    assert loop.run(answer) == 42


def test_while_a_tls_connection_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library took it for an error of the socket."""

    def recv(_size: int) -> bytes:
        raise KeyboardInterrupt

    transport = GatedTlsTransport.__new__(GatedTlsTransport)
    monkeypatch.setattr(transport, "_sock", SimpleNamespace(recv=recv), raising=False)
    assert isinstance(KafkaSSLTransport._sock_recv(transport)[1], KafkaConnectionError)
    with pytest.raises(KeyboardInterrupt):
        transport._sock_recv()
