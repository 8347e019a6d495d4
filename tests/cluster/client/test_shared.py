"""Calls of several threads and the end of a consumer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import subprocess
import sys
import threading
from typing import Any
import weakref

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
import pytest

from drkit.client import shared as shared_module
from drkit.client.shared import Shared
from drkit.client.waiting import Calls
from tests.support.client.calls import InThreads
from tests.support.client.world import World
from tests.support.waiting import wait_until

RACE = Path(__file__).parents[2] / "support/client/closing_race.py"


def never() -> bool:
    return False


def nothing() -> None:
    pass


class Client:
    """A replacement for confluent-kafka's consumer: records calls, and has calls that wait."""

    def __init__(self, answers: KafkaException | None = None) -> None:
        self.calls: list[str] = []
        self.inside, self.go_on = threading.Event(), threading.Event()
        self._answers = answers
        self.on_close: Callable[[], object] = nothing

    def commit(self) -> None:
        self.inside.set()
        assert self.go_on.wait(30)
        self.calls.append("commit")

    def position(self) -> None:
        self.calls.append("position")

    def committed(self, _partitions: Any, _seconds: float) -> None:
        if self._answers:
            raise self._answers

    def close(self) -> None:
        self.on_close()
        self.calls.append("close")


class Watched(Consumer):
    """Confluent-kafka's own class has no weak references."""


def test_an_exception_that_is_kept_does_not_keep_the_client(monkeypatch: pytest.MonkeyPatch):
    """Else it stays a member of its group, on a cluster that is back."""
    monkeypatch.setattr(shared_module, "_ANSWER_SECONDS", 0.1)
    client = Watched({"bootstrap.servers": "127.0.0.1:1", "group.id": "any", "log_level": 0})
    shared, watched = Shared(client), weakref.ref(client)
    del client
    with pytest.raises(KafkaException) as caught:
        shared.committed([TopicPartition("any", 0)], 0.1)
    shared.leave(nothing)
    assert watched() is None, caught.value


def in_commit(client: Client, shared: Shared) -> InThreads:
    threads = InThreads()
    threads.start("commit", shared.commit)
    assert client.inside.wait(30)
    return threads


@pytest.mark.wide
def test_close_waits_for_calls_inside_and_lets_none_in():
    client = Client()
    shared = Shared(client)
    threads = in_commit(client, shared)
    threads.start("close", lambda: shared.close(nothing, never))
    wait_until(lambda: shared._ended)
    with pytest.raises(RuntimeError, match="Consumer closed"):
        shared.position()
    client.go_on.set()
    threads.all_end()
    assert client.calls == ["commit", "close"]
    with pytest.raises(RuntimeError, match="Consumer closed"):
        shared.position()


@pytest.mark.wide
def test_a_callback_of_close_may_call_the_consumer_and_not_close_it():
    client = Client()
    shared = Shared(client)
    client.on_close = lambda: shared.serve(lambda: (shared.position(), Calls().wait(shared.position, never)))
    with pytest.raises(RuntimeError, match="own callback"):
        shared.serve(shared.refuse_own_callback)
    shared.refuse_own_callback()
    shared.close(nothing, never)
    assert client.calls == ["position", "position", "close"]


@pytest.mark.wide
def test_a_call_that_does_not_end_keeps_the_client_that_is_left_and_is_not_disturbed():
    for end in (lambda shared: shared.leave(nothing), lambda shared: shared.close(nothing, lambda: True)):
        client = Client()
        shared = Shared(client)
        threads = in_commit(client, shared)
        end(shared)
        client.go_on.set()
        threads.all_end()
        assert client.calls == ["commit"]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("code", "closed"),
    [(None, True), (KafkaError.GROUP_AUTHORIZATION_FAILED, True), (KafkaError._TIMED_OUT, False)],
)
def test_the_group_is_left_where_its_coordinator_answers(code: int | None, *, closed: bool):
    client = Client(None if code is None else KafkaException(KafkaError(code)))
    Shared(client).leave(nothing)
    assert client.calls == (["close"] if closed else [])


@pytest.mark.wide
def test_calls_of_other_threads_while_a_consumer_is_closed(world: World):
    """In a process of its own: without the guard it crashes, or hangs with the interpreter's lock."""
    world.fill(3)
    command = [sys.executable, str(RACE), world.primary.bootstrap(), world.topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "all closed\n"), done.stderr[-3000:]
