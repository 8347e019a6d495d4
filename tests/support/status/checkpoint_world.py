"""A copied topic, a group of its own and a task that does checkpoint rounds, for tests of what it writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from confluent_kafka import Consumer

from drkit.checkpoints.round import CheckpointTask
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.config import ClusterSettings
from drkit.flow_state.copied_topics import CopiedTopics, Producers
from drkit.kafka.groups.requests import Committed, Groups
from drkit.model import TopicPartition
from tests.support.flows.compare import read
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill, fill_transactions

T = TypeVar("T")


class World:
    """A copied topic, a group of its own, and a task that does rounds."""

    def __init__(self, flow: Flow, topic: str) -> None:
        self.flow, self.topic, self.group = flow, topic, f"g-{topic}"
        self.at = TopicPartition(topic, 0)
        self.checkpoints = f"{flow.source.alias}.checkpoints.internal"
        flow.create_both(topic, 2)
        flow.create(flow.target, self.checkpoints, 1, {"cleanup.policy": "compact"})
        fill_transactions(flow.source, [topic], 60, most=12)
        fill(flow.source, topic, 60)
        flow.copy(topic)
        self.task = CheckpointTask(flow.source, flow.target, flow.settings)
        ids = flow.topic(flow.source, topic).topic_id, flow.topic(flow.target, topic).topic_id
        known = CopiedTopics(
            {topic: (topic, *ids)}, Producers(flow.producer.id, frozenset({flow.producer.id}))
        )
        self.shard = Shard(0, flow.source.alias, (self.group,), known, self.checkpoints, sync=True)

    def round(self, **more: object) -> ShardReport:
        report = self.task.run(replace(self.shard, **more))  # type: ignore[arg-type]
        assert not report.error, report.error
        return report

    def ask(self, cluster: ClusterSettings, question: Callable[[Groups], Awaitable[T]]) -> T:
        found: T = self.flow.ask(cluster, lambda raw: question(Groups(raw)))
        return found

    def commit(self, cluster: ClusterSettings, offset: int, group: str = "", metadata: str = "") -> None:
        group = group or self.group
        stored = self.ask(cluster, lambda g: g.alter({group: {self.at: Committed(offset, metadata)}}))
        assert stored[group].value == {self.at: 0}

    def there(self, group: str = "") -> Committed | None:
        """What the target keeps."""
        group = group or self.group
        found = self.ask(self.flow.target, lambda g: g.committed([group]))[group].value
        assert found is not None
        return found.get(self.at)

    def first(self, cluster: ClusterSettings, offset: int) -> object:
        """The content of the first record from an offset on."""
        return next(s.content for s in read(cluster, self.topic)[0] if s.offset >= offset)


@contextmanager
def consumer(cluster: ClusterSettings, group: str, **more: str) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{k.replace("_", "."): v for k, v in more.items()},
        }
    )
    try:
        yield made
    finally:
        made.close()
