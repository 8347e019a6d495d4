"""Producers of the tests, and what they report."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, Message

from drkit.client import FailoverProducer
from tests.support.client.world import World


class Reports:
    """What the client reported to an application about its records."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[tuple[str, int]] = []

    def of(self, value: str) -> Any:
        def report(error: KafkaError | None, _message: Message | None) -> None:
            if error is None:
                self.done.append(value)
            else:
                self.failed.append((value, error.code()))

        return report

    def __len__(self) -> int:
        return len(self.done) + len(self.failed)


def send(out: FailoverProducer, world: World, told: Reports, names: list[str]) -> None:
    for name in names:
        out.produce(world.topic, name, partition=0, on_delivery=told.of(name))


def names(first: int, count: int) -> list[str]:
    return [f"v{i}" for i in range(first, first + count)]
