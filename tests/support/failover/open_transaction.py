"""A topic of one partition on a primary, and the producer of an open transaction in it."""

from __future__ import annotations

import shlex
import subprocess
import time
from typing import Any

from confluent_kafka import Producer
from kafka.protocol.producer.produce import ProduceRequest
import pytest

from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import Append, metadata, produce_request
from drkit.kafka.transactions import new_producer_id
from drkit.local import jars
from drkit.local.cluster import LocalCluster
from drkit.local.java import find_java
from drkit.status.look import StatusCollector
from drkit.status.model import FlowStatus
from drkit.wire import Record, encode, stamp
from tests.support.failover.world import World
from tests.support.flows.produce import fill, producer, put

OPEN, WAITING = 2, 50
"""Records of a transaction, and acknowledged ones of others after them."""


class Story:
    """One topic of one partition; opens transactions in it."""

    def __init__(self, world: World, primary: LocalCluster, topic: str = "") -> None:
        self.world, self.primary, self.topic = world, primary, topic or world.name("orders")

    def look(self) -> FlowStatus:
        settings = self.world.settings
        collector = StatusCollector(settings, settings.flows[0])
        try:
            return collector.look()
        finally:
            collector.close()

    def open(self, transactional_id: str) -> Producer:
        """A transaction with some records, and acknowledged ones of others after them."""
        out = producer(self.world.source, transactional_id=transactional_id, transaction_timeout_ms=900_000)
        out.init_transactions(30)
        out.begin_transaction()
        for _ in range(OPEN):
            put(out, self.topic, b"open", b"open", partition=0)
        assert out.flush(30) == 0
        fill(self.world.source, self.topic, WAITING, first=1000)
        return out

    def faulty(self) -> FlowStatus | None:
        found = self.look()
        return found if "hanging_transaction" in codes(found) else None

    def well(self) -> FlowStatus | None:
        found = self.look()
        return found if found.health == "ok" and found.loss.records == 0 else None

    def run(self, command: str) -> None:
        """A command as the fault prints it, by Kafka's own tool."""
        tool, *words = shlex.split(command)
        assert tool == "kafka-transactions.sh"
        classpath = jars.classpath(modules=jars.BROKER)
        main = "org.apache.kafka.tools.TransactionsCommand"
        done = subprocess.run(
            [str(find_java()), "-cp", classpath, main, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def hang(self, waiting: int = WAITING) -> int:
        """A transaction that no coordinator knows, and records of others after it; its producer id."""
        world, topic = self.world, self.topic
        identity = world.ask(world.source, new_producer_id)
        data = encode([Record(0, time.time_ns() // 1_000_000, b"k", b"v", ())], 0)
        batch = stamp(data, identity.id, identity.epoch, 0, transactional=True)

        async def append(raw: RawCluster) -> int:
            found = (await metadata(raw, [topic]))[topic]
            appends = [Append(topic, found.topic_id, 0, bytes(batch))]
            request = produce_request(appends, transactional_id=world.name("nobody"))
            answer = await raw.send(before_implicit_adding(request), found.leaders[0].node)
            return int(answer.responses[0].partition_responses[0].error_code)

        assert world.ask(world.source, append) == 0
        fill(world.source, topic, waiting, first=2000)
        return int(identity.id)


def codes(status: FlowStatus) -> set[str]:
    """Of its faults."""
    return {f.code for f in status.faults}


def all_before_implicit_adding(patch: pytest.MonkeyPatch) -> None:
    """Let drkit's transactions write as in :func:`before_implicit_adding`."""

    def older(*given: Any, **more: Any) -> ProduceRequest:
        return before_implicit_adding(produce_request(*given, **more))

    for module in ("kafka.appending", "replay.writer", "copy_task.target.bulk"):
        patch.setattr(f"drkit.{module}.produce_request", older)


def before_implicit_adding(request: ProduceRequest) -> ProduceRequest:
    """From version 12 on the broker adds the partition to the coordinator's transaction (KIP-890)."""
    return ProduceRequest(
        transactional_id=request.transactional_id, acks=request.acks, timeout_ms=request.timeout_ms,
        topic_data=request.topic_data, max_version=11,
    )  # fmt: skip
