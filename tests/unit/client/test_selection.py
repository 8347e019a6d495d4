"""What a consumer reads, from cluster to cluster."""

from __future__ import annotations

from confluent_kafka import OFFSET_STORED, TopicPartition

from drkit.client.shared import Selection
from drkit.endpoint import Endpoint

HERE = Endpoint(2, "standby", "id", "s:9092", topics={"a": "primary.a"})


def at(name: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(name, partition, 7)


def places(selection: Selection) -> list[tuple[str, int, int]] | None:
    found = selection.partitions_on(HERE)
    return None if found is None else [(p.topic, p.partition, p.offset) for p in found]


def test_partitions_that_were_added_and_removed_go_along_at_the_groups_position():
    selection = Selection()
    selection.add([at("a"), at("b")])
    selection.add([at("a", 1), at("c")])
    selection.remove([at("b"), at("primary.a", 1)], HERE)
    assert places(selection) == [("primary.a", 0, OFFSET_STORED), ("c", 0, OFFSET_STORED)]
    selection.assign(None)
    assert places(selection) is None


def test_partitions_of_a_subscription_are_the_groups_affair():
    selection = Selection()
    selection.subscribe(["a", "primary.a", "b"], {})
    selection.add([at("a")])
    selection.assign([at("a")])
    assert places(selection) is None
    assert selection.topics_on(HERE) == ["primary.a", "b"], "librdkafka refuses a topic that is named twice"
    selection.unsubscribe()
    assert selection.topics_on(HERE) is None
