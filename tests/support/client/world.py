"""A primary and a standby with the same records at other offsets, and the file that names one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.endpoint import Endpoint
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition as Place
from drkit.repoint.file import EndpointFile
from tests.support.waiting import wait_until

SHIFT = 5
"""The primary's offset of a record is larger by this."""


def quiet(cluster: LocalCluster, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap(),
        "log_level": 0,
        **{k.replace("_", "."): v for k, v in more.items()},
    }


class World:
    """Two clusters, one topic with one partition in both, an endpoint file that leads to the primary."""

    def __init__(self, primary: LocalCluster, standby: LocalCluster, topic: str, folder: Path) -> None:
        self.primary, self.standby, self.topic = primary, standby, topic
        self.group = f"g-{topic}"
        self.path = folder / "endpoint.json"
        self._term = 0
        self.lead_to(primary)

    # -- the file -----------------------------------------------------------------------------------

    def endpoint(self, cluster: LocalCluster, **more: Any) -> Endpoint:
        alias = "primary" if cluster is self.primary else "standby"
        return replace(Endpoint(self._term, alias, cluster.cluster_id, cluster.bootstrap()), **more)

    def lead_to(self, cluster: LocalCluster, client: Any = None, **more: Any) -> Endpoint:
        """What a failover does in the end.

        :param client: its next call looks at the file, however short ago it did
        """
        self._term += 1
        found = self.endpoint(cluster, **more)
        EndpointFile(self.path).tell(found)
        if client is not None:
            wait_until(lambda: monotonic() > client._watch._next_look)
        return found

    # -- records ------------------------------------------------------------------------------------

    def create(self, name: str | None = None, **config: str) -> None:
        for cluster in (self.primary, self.standby):
            admin = AdminClient(quiet(cluster))
            topic = name or self.topic
            admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
            wait_until(lambda a=admin, t=topic: t in a.list_topics(timeout=10).topics)  # type: ignore[misc]

    def fill(self, records: int) -> None:
        """The same records on both sides, as after a copy."""
        self.create()
        self.send(self.primary, [f"old{i}" for i in range(SHIFT)])
        cut = TopicPartition(self.topic, 0, SHIFT)
        admin = AdminClient(quiet(self.primary))
        admin.delete_records([cut])[cut].result(30)
        for cluster in (self.primary, self.standby):
            self.send(cluster, [f"v{i}" for i in range(records)])

    def send(self, cluster: LocalCluster, values: Iterable[str], topic: str | None = None) -> None:
        producer = Producer(quiet(cluster))
        for value in values:
            producer.produce(topic or self.topic, value.encode(), partition=0)
        assert producer.flush(30) == 0

    def values(self, cluster: LocalCluster, topic: str | None = None, **more: Any) -> list[str]:
        """The values of all records in the topic."""
        reader = Consumer(
            quiet(cluster, group_id="reader", enable_partition_eof=True, enable_auto_commit=False, **more)
        )
        reader.assign([TopicPartition(topic or self.topic, 0, 0)])
        found: list[str] = []
        while (message := reader.poll(20)) is not None and message.error() is None:
            found.append((message.value() or b"").decode())
        reader.close()
        assert message is not None, "no answer"
        return found

    # -- positions ----------------------------------------------------------------------------------

    def place_group(self, offset: int, topic: str | None = None) -> None:
        """What drkit writes on the standby before it tells the clients."""
        at = Place(topic or self.topic, 0)
        answer = _ask(self.standby, lambda g: g.alter({self.group: {at: Committed(offset)}}))
        assert answer[self.group].value == {at: 0}

    def committed(self, cluster: LocalCluster) -> int | None:
        found = _ask(cluster, lambda g: g.committed([self.group]))[self.group].value
        at = found.get(Place(self.topic, 0))
        return at.offset if at else None


def _ask(cluster: LocalCluster, question: Any) -> Any:
    loop = EventLoop()
    raw = RawCluster(loop, ClusterSettings(alias="c", bootstrap_servers=cluster.bootstrap()), "test")

    async def go() -> Any:
        await raw.connected()
        return await question(Groups(raw))

    try:
        return loop.run(go)
    finally:
        raw.close()
        loop.close()
