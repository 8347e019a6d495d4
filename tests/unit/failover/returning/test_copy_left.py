"""How much of the topics that a return has emptied is not copied again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from drkit.failover.old_primary.emptied import Size, left_of, size_of, wait_for_copy
from drkit.failover.returning.begin import _smallest_first
from drkit.model import TopicPartition
from drkit.status.lag.source import Ends
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


def test_a_size_that_brokers_do_not_tell_is_too_large_for_the_limit() -> None:
    """It was 0: a topic of any size was emptied beside others, and one of unknown lag counted as copied."""
    assert size_of(Ends(2, 12), None, 500) == Size(500, 10)
    assert size_of(None, None, 500) == Size(500, 0)
    assert size_of(Ends(12, 12), None, 500) == Size(0, 0), "nothing is in it"
    assert size_of(Ends(2, 12), 70, 500) == Size(70, 10)
    untold = {TopicPartition("other", 0): size_of(Ends(2, 12), None, 500)}
    assert left_of([seen(0, 1, None, "other")], ["other"], untold) == {"other": 50}
    assert left_of([], ["other"], untold) == {"other": 500}


def test_what_is_emptied_already_goes_first_when_a_run_is_resumed() -> None:
    """It was killed after it had emptied `large`: `small` was emptied beside it, which did not count."""
    ends = {TopicPartition("large", 0): Ends(0, 900), TopicPartition("small", 0): Ends(0, 3)}
    context: Any = SimpleNamespace(
        scope=SimpleNamespace(topics={"large": "large", "small": "small"}),
        run=lambda *_asked: (ends, {}), target=None,
        effects=lambda _step: {"empty large": {}}, request=SimpleNamespace(copy_limit=1),
    )  # fmt: skip
    assert _smallest_first(context, ["small", "large"]) == ["large", "small"]
    flow: Any = None
    wait_for_copy(context, flow, "large", ["small"])
    context.effects = lambda _step: {}
    assert _smallest_first(context, ["small", "large"]) == ["small", "large"]
