"""Calls in threads, and a cluster that accepts connections and never answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import socket
import threading
from typing import Any

from confluent_kafka import KafkaException

from drkit.endpoint import Endpoint
from tests.support.waiting import wait_until


@contextmanager
def silence() -> Iterator[str]:
    """The address of something that takes connections and requests, and answers none."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def endpoint(address: str, term: int, cluster: str, **more: Any) -> Endpoint:
    return Endpoint(term, cluster, f"id-{cluster}", address, **more)


@dataclass
class InThreads:
    """Each call in a thread of its own; what it returned, or which error it raised."""

    ended: dict[str, object] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)

    def start(self, name: str, call: Callable[[], object]) -> None:
        def run() -> None:
            try:
                self.ended[name] = call()
            except (KafkaException, RuntimeError) as error:
                self.errors[name] = error
                self.ended[name] = type(error)

        self.started.add(name)
        threading.Thread(target=run, name=name, daemon=True).start()

    def all_end(self, seconds: float = 90.0) -> dict[str, object]:
        try:
            wait_until(lambda: self.started == self.ended.keys(), seconds)
        except AssertionError as error:
            raise AssertionError(f"still waiting: {sorted(self.started - self.ended.keys())}") from error
        return self.ended
