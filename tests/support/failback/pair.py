"""Two flows between two clusters, one in each direction; of each topic one of them copies at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drkit.failover.core.request import RunRequest
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import EARLIEST
from drkit.kafka.topics import topic_names
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets.translation import PartitionPosition
from drkit.verify import snapshot
from drkit.verify.ranges import cut
from drkit.verify.report import FlowReport, join
from drkit.verify.run import remember_equal
from drkit.verify.task import compare_range
from tests.support.failover.world import World
from tests.support.flows.exactness import exact_both_ways

CUT = "the listener is closed"


class Side(World):
    """One direction of a pair, whose configuration names both."""

    opposite: Side

    def plain(self) -> dict[str, Any]:
        """See :class:`World`."""
        found = super().plain()
        return found | {"flows": [self.flow_fields, self.opposite.flow_fields]}

    def exact(self, topics: list[str]) -> int:
        """Compare every offset of both logs of some topics, by the flow's map; returns how many."""
        with StateTopic(self.target, self.source.alias) as state:
            state.load()
            known = known_of(state.records)
        checked = 0
        for topic in topics:
            pairs = [known.pair(topic, p) for p in self.topic(self.target, known.topics[topic][0]).leaders]
            starts = self.offsets(self.source, topic, EARLIEST)  # it connects the source, too
            reader = lambda raw: PositionReader(raw, self.source.alias)  # noqa: E731  of each question
            found = self.ask(
                self.target,
                lambda raw: reader(raw).look(pairs, known.producers, self._raw[self.source.alias]),  # noqa: B023
            )
            theirs, ours = self.records(self.source, topic), self.records(self.target, topic)
            for at, place in found.items():
                assert isinstance(place, PartitionPosition), f"{at}: {place}"
                p = at.partition
                checked += exact_both_ways(place, theirs[p], ours[p], starts[p], str(at))
        return checked

    def verified(self, topics: list[str], *, from_checked: bool = False) -> FlowReport:
        """What ``drkit verify`` finds, without Spark between; what is equal is remembered as it does."""
        flow = self.settings.flows[0]
        clusters = Cluster.connect(self.source), Cluster.connect(self.target)
        taken = snapshot.take(flow, *clusters, topics, only_new=from_checked)
        results = [compare_range(r, self.source, self.target) for r in cut(taken.views, 2)]
        found = join(taken.views, results)
        remember_equal(self.target, flow, taken, found, lambda _: None)
        return FlowReport(flow.name, found, list(taken.unclear), taken.absent, taken.notes, 1.0)

    def topics_of_target(self) -> list[str]:
        """All topics on the target."""
        return topic_names(Cluster.connect(self.target))

    def all_committed(self, group: str) -> dict[TopicPartition, int]:
        """What the target keeps of a group."""
        return {at: c.offset for at, c in self.committed(self.target, group).items()}


class Pair:
    """A pair; `now` is the direction that copies."""

    def __init__(
        self, left: LocalCluster, right: LocalCluster, folder: Path, *, user: str = ADMIN, tag: str = "",
        **flow: Any,
    ) -> None:  # fmt: skip
        there = Side(left, right, folder, user=user, tag=tag, **flow)
        back = Side(right, left, folder, tag=there.tag, sides="ba", user=user, **flow)
        there.opposite, back.opposite = back, there
        self.now, self.other = there, back

    def switch(self, **more: Any) -> dict[str, Any]:
        """A planned switchover of everything; returns its report."""
        with self.now.desk() as desk:
            report = desk.begin([], RunRequest(planned=True, **more))
        self.now.stop_replicating()
        return report

    def reprotect(self, cut: str = CUT) -> dict[str, Any]:
        """Make the old primary the standby; from then on the other direction copies."""
        with self.now.desk() as desk:
            report = desk.begin_return(RunRequest(clients_cut=cut))
        self.now, self.other = self.other, self.now
        return report

    def close(self) -> None:
        """Stop both replicators."""
        self.now.close()
        self.other.close()
