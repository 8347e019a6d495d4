"""Three brokers of which one is elected leader though it lacks records: what it lacks is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from drkit.config import ClusterSettings
from drkit.local.cluster import LocalCluster
from tests.support.exactness.recorded_load import KINDS, Kind
from tests.support.exactness.schedule import Step
from tests.support.exactness.walker import Walker
from tests.support.flows.flow import Flow
from tests.support.waiting import eventually

THREE: Mapping[str, str] = {"auto.leader.rebalance.enable": "false"}
"""Broker properties: a leader stays where it was elected."""
PLAIN = tuple(k for k in KINDS if not k.transactional)
"""Where the source loses markers of its own, nothing says how a transaction ended."""
_PLACES = (0, 1)
"""Node ids of both replicas: the third broker keeps the quorum of controllers."""
_CONFIG = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


class Elections:
    """Topics with two replicas each, all with the same leader."""

    def __init__(self, flow: Flow, settings: ClusterSettings, cluster: LocalCluster) -> None:
        self._flow, self._settings, self._cluster = flow, settings, cluster
        self._topics: list[str] = []

    def create(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        new = NewTopic(
            name, partitions, replica_assignment=[list(_PLACES)] * partitions, config={**config, **_CONFIG}
        )
        self._flow._admins[self._settings.alias].create_topics([new])[name].result(30)
        self._topics.append(name)
        eventually(lambda: self.leaders() == {_PLACES[0]}, what=f"leaders of {name}")

    def leaders(self) -> set[int]:
        leaders = (self._flow.topic(self._settings, t).leaders.values() for t in self._topics)
        return {leader.node for each in leaders for leader in each}

    def leave_alone(self) -> None:
        """SIGKILL the follower: from now on only the leader has what is written."""
        (leader,) = self.leaders()
        self._cluster.broker(1 - leader).kill()
        eventually(lambda: self._in_sync() == {(leader,)}, what="a leader that is alone in sync")

    def elect(self) -> None:
        """SIGKILL the leader, and bring back the follower, which becomes the leader."""
        (leader,) = self.leaders()
        self._cluster.broker(leader).kill()
        self._cluster.broker(1 - leader).restart()
        eventually(lambda: self.leaders() == {1 - leader}, 90, "an unclean election")

    def heal(self) -> None:
        """All brokers are back, and in sync."""
        self._cluster.restart()
        eventually(lambda: all(len(each) > 1 for each in self._in_sync()), 90, "both replicas in sync")

    def _in_sync(self) -> set[tuple[int, ...]]:
        admin = self._flow._admins[self._settings.alias]
        out: set[tuple[int, ...]] = set()
        for topic in self._topics:
            try:
                found = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            except KafkaException:
                return {()}
            out |= {tuple(sorted(p.isrs)) for p in found}
        return out


class UncleanWalker(Walker):
    """A copy whose source or target elects unclean leaders.

    :param on_source: the source does; else the target
    """

    def __init__(
        self,
        flow: Flow,
        source: LocalCluster,
        target: LocalCluster,
        name: str,
        *,
        on_source: bool,
        seed: int,
        kinds: tuple[Kind, ...],
    ) -> None:
        self.on_source = on_source
        self.elections = Elections(flow, *((flow.source, source) if on_source else (flow.target, target)))
        super().__init__(
            flow, source, target, name, seed=seed, kinds=kinds, partitions=1, per_second=60, clean_map=False
        )

    def create(self, name: str, partitions: int, config: dict[str, str], on_target: dict[str, str]) -> str:
        if self.on_source:
            self.elections.create(name, partitions, config)
            self.flow.create(self.flow.target, name, partitions, self.flow.passive(config, on_target))
        else:
            self.flow.create(self.flow.source, name, partitions, config, 1)
            self.elections.create(name, partitions, self.flow.passive(config, on_target))
        return name

    def steps(self) -> dict[str, Callable[[Step], None]]:
        return super().steps() | {
            "unclean": self.unclean,
            "unclean, killed before": lambda step: self.unclean(step, before=True),
            "unclean, killed after": lambda step: self.unclean(step, after=True),
            "unclean, killed after a claim": lambda step: self.unclean(step, claim=True),
        }

    def unclean(self, step: Step, *, before: bool = False, after: bool = False, claim: bool = False) -> None:
        """One unclean election; the copy task is killed at some moment around it, or lives through it."""
        self.copying(20)
        self.elections.leave_alone()
        self.copying(20)
        self.wait(3 * step.first)
        if before:
            self.kill()
        if claim:
            self._killed_after_a_claim(step)
        if self.on_source:
            self.quiet()
        self.elections.elect()
        if self.on_source:
            lost = sum(truth.lost_tail() for truth in self.truths.values())
            self.say(f"the source lost {lost} records")
            self.write()
        if step.third < 0.5:
            self.copying(20)
            self.wait(2 * step.second)
        if after:
            self.kill()
        with suppress(AssertionError):
            self.copying(10)
        self.elections.heal()
