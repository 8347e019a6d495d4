"""Switchovers that die or are aborted at their source, each with a topic and a group of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from drkit.errors import ClusterUnreachable
from drkit.failover.fencing.source_record import AbortedAtSource
from drkit.failover.source_abort import abort_at_source
from drkit.flow_state.records import RoleRecord
from drkit.flow_state.source_fence.entries import FenceRecord
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.journal.entries import EntryKind
from drkit.journal.machine import RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failover.orchestrator import Kill, Orchestrators, Outcome
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill

SIZE: Final = "max.message.bytes"
PLANNED: Final = {"planned": True}
SILENT: Final = ClusterUnreachable("cluster_stopped_answering", where="b")


@contextmanager
def switchovers_between(
    source: LocalCluster, target: LocalCluster, folder: Path, number: int
) -> Iterator[Switchovers]:
    """A stage for some switchovers.

    :param folder: of their journals
    """
    world = World(source, target, folder)
    try:
        with Orchestrators() as orchestrators:
            yield Switchovers(world, orchestrators, number)
    finally:
        world.close()


class Switchovers:
    """A world with a topic and a group for each switchover."""

    def __init__(self, world: World, orchestrators: Orchestrators, switchovers: int) -> None:
        self.world, self.orchestrators = world, orchestrators
        self.number = -1
        self.aborted: list[str] = []
        names = [world.name(f"t{i}") for i in range(switchovers)]
        for i, topic in enumerate(names):
            world.create(world.source, topic, 1, {"retention.ms": "-1", SIZE: "900000"})
            fill(world.source, topic, 20)
            world.commit(world.source, world.name(f"g{i}"), {TopicPartition(topic, 0): 5})
        world.replicate()
        world.copied(names, {world.name(f"g{i}"): None for i in range(switchovers)})
        assert self.run(None).error is None
        self.entries = world.run_log().entries

    def run(self, kill: Kill | None) -> Outcome:
        """Begin the next switchover, and kill its orchestrator."""
        self.number += 1
        return self.orchestrators.run(
            self.world.plain(), "begin", groups=[self.group], kill=kill, request=PLANNED
        )

    def killed_at(self, step: StepName, kind: EntryKind, when: str, effect: str = "") -> None:
        """Begin the next one, which dies at such an entry."""
        found = [n for n, e in enumerate(self.entries) if (e.step, e.kind, e.effect) == (step, kind, effect)]
        assert self.run(Kill(found[-1], when)).killed

    def abort(self, **more: Any) -> dict[str, Any]:
        """The abort without the target."""
        settings = self.world.settings
        return abort_at_source(settings, settings.flows[0], SILENT, **more)

    def again(self, verb: str) -> Outcome:
        """Another orchestrator, with the target."""
        return self.orchestrators.run(self.world.plain(), verb)

    @property
    def topic(self) -> str:
        return self.world.name(f"t{self.number}")

    @property
    def group(self) -> str:
        return self.world.name(f"g{self.number}")

    def is_closed(self) -> bool:
        """Whether a producer of the source is refused."""
        return answers(self.world.source, self.topic, [b"late"])[0] is not None

    @property
    def size(self) -> str | None:
        """The topic's setting on the source."""
        found = topic_configs(Cluster.connect(self.world.source), [self.topic])[self.topic][SIZE]
        return found.value if found.is_set_on_topic else None

    @property
    def record(self) -> FenceRecord:
        """The record of the newest run on the source."""
        settings = self.world.settings
        log = FenceTopic(self.world.source, settings.flows[0]).read()
        return log.records[self.world.run_log().run_id]

    def ends_here(self, size: str = "900000") -> None:
        """The target is back: the run does not continue there, is rolled back, and the flow copies again."""
        refused = self.again("resume")
        assert refused.error is not None
        assert refused.error["kind"] == AbortedAtSource.__name__, refused.error
        run = self.world.run_log()
        assert run.state is RunState.HELD
        assert [e.kind for e in run.entries[-2:]] == [EntryKind.HOLD, EntryKind.HELD], "nothing is repeated"
        done = self.again("abort")
        assert done.error is None, done.error
        run = self.world.run_log()
        assert run.state is RunState.ABORTED
        assert RoleRecord.key(self.topic) not in self.world.state()
        assert self.size == size
        assert not self.is_closed()
        self.aborted.append(self.topic)
