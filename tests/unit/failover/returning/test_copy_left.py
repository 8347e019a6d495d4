"""How much of the topics that a return has emptied is not copied again."""

from __future__ import annotations

from dataclasses import replace

from drkit.failover.old_primary.copy_limit import Size, left_of
from drkit.model import TopicPartition
from drkit.status.model import PartitionStatus

MANY = 300
SIZES = {TopicPartition("busy", n): Size(1_000, 100) for n in range(MANY)} | {
    TopicPartition("other", 0): Size(50, 5)
}


def seen(number: int, records: int | None, volume: int | None, topic: str = "busy") -> PartitionStatus:
    return PartitionStatus(topic, topic, number, 9, 9, 9, records, volume, None, exact=False)


def test_a_busy_topic_of_many_partitions_that_is_copied_again_holds_nothing_up() -> None:
    """A look reads what waits in 256 partitions: with more of them all of the topic counted, for ever."""
    partitions = [seen(n, 2, 20 if n < 256 else None) for n in range(MANY)]
    assert left_of(partitions, ["busy"], SIZES) == {"busy": 2 * 10 * MANY}
    assert left_of([seen(n, 0, 0) for n in range(MANY)], ["busy"], SIZES) == {}


def test_what_is_unknown_counts_whole() -> None:
    partitions = [seen(n, 0, 0) for n in range(1, MANY)]
    assert left_of(partitions, ["busy"], SIZES) == {"busy": 1_000}, "no look shows its first partition"
    unknown = [*partitions, replace(seen(0, None, None), reason="the target topic was deleted")]
    assert left_of(unknown, ["busy", "other"], SIZES) == {"busy": 1_000, "other": 50}
    assert left_of([seen(0, 3, None, "other")], ["other"], {TopicPartition("other", 0): Size(50, 0)}) == {
        "other": 50
    }
