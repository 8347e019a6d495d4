"""The translation drill on many groups: 2,000 with 24 partitions each, within a minute and its byte limit."""

from __future__ import annotations

from collections import Counter
import random
import time

import pytest

from drkit.drill.evidence import TRANSLATION, DrillEvidence, VerdictLimits
from drkit.drill.judge import judge
from drkit.drill.position_rows import PackedPositions
from drkit.drill.positions import collect_positions
from drkit.exercise.verdict import PASS
from drkit.kafka.groups.requests import Committed, Groups
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.fixtures import world_factory as world_factory
from tests.support.flows.produce import fill_transactions
from tests.support.waiting import eventually

GROUPS, PARTITIONS, RECORDS = 2_000, 24, 48_000
BYTES_PER_SECOND = 10_000_000
MOST_SECONDS = 60.0
_AT_ONCE = 200


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_thousand_groups_within_a_minute(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster
) -> None:
    """Every position of 2,000 groups in 24 partitions is compared with its records in a minute."""
    world = world_factory(source, target)
    topic = world.name("orders")
    world.create(world.source, topic, PARTITIONS, {"retention.ms": "-1"})
    fill_transactions(world.source, [topic], RECORDS)
    ends = [world.offsets(world.source, topic)[p] for p in range(PARTITIONS)]
    chance = random.Random(34)
    names = [world.name(f"group-{number:04}") for number in range(GROUPS)]
    for begin in range(0, GROUPS, _AT_ONCE):
        offsets = {
            name: {TopicPartition(topic, p): Committed(chance.randrange(ends[p])) for p in range(PARTITIONS)}
            for name in names[begin : begin + _AT_ONCE]
        }
        answers = world.ask(world.source, lambda raw, some=offsets: Groups(raw).alter(some))
        assert all(not any((answer.value or {"": -1}).values()) for answer in answers.values())
    world.replicate()
    world.copied([topic])

    def are_stored() -> bool:
        found = world.ask(world.target, lambda raw: Groups(raw).committed(names))
        return all(len(answer.value or ()) == PARTITIONS for answer in found.values())

    eventually(are_stored, 1200, "positions of all groups on the target")
    settings, began, cpu = world.settings, time.monotonic(), time.process_time()
    found = collect_positions(settings, settings.flows[0], bytes_per_second=BYTES_PER_SECOND)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    evidence = DrillEvidence(PackedPositions.of(found.evidence))
    verdict = judge(TRANSLATION, evidence, VerdictLimits())
    print(f"{seconds:.1f} s, {cpu:.1f} s of CPU, {found.bytes:,} bytes")  # noqa: T201  a measurement
    print(Counter(answer.value for answer, _ in evidence.answers))  # noqa: T201  as above
    assert (found.groups, len(found.evidence)) == (GROUPS, 2 * GROUPS * PARTITIONS)
    assert verdict.word == PASS, verdict.reasons[:5]
    assert found.bytes <= BYTES_PER_SECOND * (seconds + 1)
    assert seconds < MOST_SECONDS
