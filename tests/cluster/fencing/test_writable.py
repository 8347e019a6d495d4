"""What a real broker answers to the canary, by the settings of a topic, with a fence by size and without."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError
import pytest

from drkit.failover.fencing.proof import WRITABLE, write_codes
from drkit.kafka import codes
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs
from tests.support.failover.world import World
from tests.support.flows.produce import producer
from tests.support.waiting import eventually

SIZE = "max.message.bytes"
OLD = {"message.timestamp.after.max.ms": "0", "message.timestamp.before.max.ms": "0"}


def _code(world: World, topic: str, acks: int) -> int:
    found: Mapping[object, int] = world.ask(world.source, lambda raw: write_codes(raw, [topic], acks))
    [code] = found.values()
    return code


def _written(world: World, topic: str, key: bytes | None) -> int:
    """The error code that an ordinary producer gets; 0: its record is there."""
    heard: list[int] = []
    out = producer(world.source)

    def note(error: KafkaError | None, _: object) -> None:
        heard.append(0 if error is None else error.code())

    out.produce(topic, b"x", key=key, on_delivery=note)
    assert out.flush(30) == 0
    return heard[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact,delete", "compression.type": "gzip"},
        {"message.timestamp.type": "LogAppendTime"},
        OLD,
    ],
    ids=["compacted", "recompressed", "append time", "old records only"],
)
def test_an_invalid_record_is_what_only_a_leader_without_a_fence_answers(
    world: World, settings: dict[str, str]
) -> None:
    """Kafka looks at the size before the batch's count, and at the count before any record of it."""
    topic = world.name("orders")
    world.create(world.source, topic, 1, {**settings, SIZE: "0"})
    assert _written(world, topic, b"k") == codes.MESSAGE_TOO_LARGE
    assert {_code(world, topic, acks) for acks in (1, -1)} == {codes.MESSAGE_TOO_LARGE}
    alter_topic_configs(Cluster.connect(world.source), {topic: {SIZE: "1000000"}})
    eventually(lambda: _code(world, topic, 1) == WRITABLE, what="the lifted fence")
    assert _code(world, topic, -1) == WRITABLE
    assert set(world.offsets(world.source, topic).values()) == {0}, "the canary leaves nothing"
    if settings is not OLD:
        assert _written(world, topic, b"k") == 0
    if "compact" in settings.get("cleanup.policy", ""):
        assert _written(world, topic, None) == codes.INVALID_RECORD, (
            "its own answer is of the count, not of this"
        )
