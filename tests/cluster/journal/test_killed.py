"""An orchestrator is killed at a boundary of its journal, and another one continues: the end is the same.

Before an entry is written, when it is in the local file only, and after it is everywhere: with an
intent the last is "before the effect", with a result the first is "after the effect".
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any, ClassVar

import pytest

from drkit.flow_state.records import RoleRecord
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import RunState, StepName
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.circles import in_soak, in_wide
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.failover.world import World, fan_out
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters

WHENS = ("before", "file", "after")
MOST_ENTRIES = 45
"""Of an unbroken run."""
A_FEW = (
    (StepName.FENCE, EntryKind.INTENT, "after"),
    (StepName.OPEN, EntryKind.RESULT, "file"),
    (StepName.REPOINT, EntryKind.RESULT, "before"),
)
"""One of each kind, where it hurts; ``make soak`` walks all boundaries."""


class Stage:
    """A world with a topic and a group for each failover."""

    def __init__(self, world: World, orchestrators: Orchestrators, number: int) -> None:
        self.world, self._orchestrators = world, orchestrators
        self._left = iter(range(number))
        for i in range(number):
            topic = world.name(f"t{i}")
            world.create(world.source, topic, 2, {"retention.ms": "-1"})
            fill(world.source, topic, 60, linger_ms=0)
            world.commit(world.source, world.name(f"g{i}"), self._middle(topic))
        world.replicate()
        names = [world.name(f"t{i}") for i in range(number)]
        world.copied(names, {world.name(f"g{i}"): None for i in range(number)})

    def _middle(self, topic: str) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, p): e // 2 for p, e in self.world.offsets(self.world.source, topic).items()
        }

    def failed_over(self, kill: Kill | None) -> dict[str, Any]:
        """The end state of one failover; killed once and resumed, unless there is no kill."""
        number = next(self._left)
        world, group, topic = self.world, self.world.name(f"g{number}"), self.world.name(f"t{number}")
        endpoint = world.folder / f"endpoint-{number}.json"
        world.failover_fields["repoint"] = [{"kind": "file", "path": str(endpoint), "groups": [group]}]
        first = self._orchestrators.run(world.plain(), "begin", groups=[group], kill=kill)
        assert first.killed is (kill is not None), first
        assert first.killed or first.error is None, first.error
        if kill is not None and not self._ended(group):
            again = self._orchestrators.run(world.plain(), "resume")
            assert again.error is None, (kill, again.error)
        return self._end_state(group, topic, endpoint)

    def _ended(self, group: str) -> bool:
        run = self.world.run_log()
        if group not in run.opening["scope"]["groups"]:
            # It died before its first entry stood on the target: nothing was begun.
            second = self._orchestrators.run(self.world.plain(), "begin", groups=[group])
            assert second.error is None, second
            return True
        return run.state.is_over

    def _end_state(self, group: str, topic: str, endpoint: Path) -> dict[str, Any]:
        world, run = self.world, self.world.run_log()
        assert run.state is RunState.DONE, run.state
        assert not violations(run)
        open_ = [(s, n) for s, found in run.effects.items() for n, e in found.items() if e["result"] is None]
        assert not open_, "effects without an end"
        role = world.state()[RoleRecord.key(topic)]
        assert role["run_id"] == run.run_id
        assert f'"term": {run.term}' in endpoint.read_text(encoding="utf-8")
        theirs, ours = world.records(world.source, topic), world.records(world.target, topic)
        there = world.committed(world.target, group)
        left = {}
        for at, upstream in self._middle(topic).items():
            rest = [s.content for s in theirs[at.partition] if s.offset >= upstream]
            first = bisect_left([s.offset for s in ours[at.partition]], there[at].offset)
            assert [s.content for s in ours[at.partition][first:]] == rest
            left[at.partition] = len(rest)
        return {
            "role": role["role"],
            "frontiers": role["frontiers"],
            "left": left,
            "steps": sorted(run.results),
            # A run that is resumed behind OPEN states its loss again in DONE.
            "effects": {
                s: sorted(found)
                for s, found in sorted(run.effects.items())
                if s not in {StepName.COMMIT_OFFSETS, StepName.DONE}
            },
            "verdicts": sum(run.results[StepName.COMMIT_OFFSETS]["evidence"]["verdicts"].values()),
        }


# P36
def test_killed_at_some_boundaries_and_resumed(
    world_factory: WorldFactory, source: LocalCluster, target: LocalCluster, orchestrators: Orchestrators
) -> None:
    stage = Stage(world_factory(source, target), orchestrators, len(A_FEW) + 1)
    unbroken = stage.failed_over(None)
    entries = stage.world.run_log().entries
    for step, kind, when in A_FEW:
        number = next(n for n, e in enumerate(entries) if e.step is step and e.kind is kind)
        assert stage.failed_over(Kill(number, when)) == unbroken, (step, kind, when)


class ForkedStage(Stage):
    """Each failover is a switchover, while one of the same topic to a third cluster is about to fence it."""

    request: ClassVar[dict[str, Any]] = {"planned": True}

    def __init__(self, worlds: tuple[World, World], orchestrators: Orchestrators, number: int) -> None:
        super().__init__(worlds[0], orchestrators, number)
        self._worlds, second = worlds, worlds[1]
        second.replicate()
        second.copied([second.name(f"t{i}") for i in range(number)])

    def failed_over(self, kill: Kill | None) -> dict[str, Any]:
        number = next(self._left)
        plains = [fan_out(other, world) for world, other in (self._worlds, self._worlds[::-1])]
        topic, run = self.world.name(f"t{number}"), self._orchestrators.run
        more: dict[str, Any] = {"groups": [self.world.name(f"g{number}")], "request": self.request}
        freeze = Kill("FENCE record intent", AFTER)
        other = self._orchestrators.start(plains[1], "begin", freeze=freeze, **more)
        assert run(plains[0], "begin", kill=kill, **more).killed is (kill is not None)
        other.wake()
        other.outcome()
        for world, plain in zip(self._worlds, plains, strict=True):
            # A run that has changed nothing ends as refused when it is resumed.
            ends = [run(plain, v) for v in ("resume", "abort") if not world.run_log().state.is_over]
            assert world.run_log().state.is_over, (kill, [end.error for end in ends])
        roles = [w.state().get(RoleRecord.key(topic), {}).get("role") for w in self._worlds]
        [refused] = answers(self.world.source, topic, [b"late"])
        fences = [FenceTopic(w.source, w.settings.flows[0]).read().open for w in self._worlds]
        assert (roles.count("promoted"), refused is not None) in {(0, False), (1, True)}, (kill, roles)
        assert roles.count(None) + roles.count("promoted") == len(roles), (kill, roles)
        return {"fences of no open target": fences}


def walk(stage: Stage, when: str, stride: int = 1) -> None:
    """Kill a failover at boundaries of its journal; each ends as the unbroken one."""
    unbroken = stage.failed_over(None)
    entries = stage.world.run_log().entries
    assert len(entries) <= MOST_ENTRIES
    for number, entry in list(enumerate(entries))[::stride]:
        ended = stage.failed_over(Kill(number, when))
        assert ended == unbroken, (number, entry.kind, entry.step, entry.effect, when)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("stride", [in_wide(4), in_soak(1)])
def test_killed_while_another_flow_of_the_source_switches_over(
    world_factory: WorldFactory,
    source: LocalCluster,
    target: LocalCluster,
    module_cluster: ModuleClusters,
    orchestrators: Orchestrators,
    stride: int,
) -> None:
    """At most one of two clusters opens, the old primary is closed then alone, and no fence is left."""
    first = world_factory(source, target)
    worlds = first, world_factory(source, module_cluster("reports"), tag=first.tag, sides="ac")
    walk(ForkedStage(worlds, orchestrators, -(-MOST_ENTRIES // stride) + 1), AFTER, stride)


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("when", WHENS)
def test_killed_at_every_boundary_and_resumed(
    world_factory: WorldFactory,
    source: LocalCluster,
    target: LocalCluster,
    orchestrators: Orchestrators,
    when: str,
) -> None:
    """I11: killed and resumed ends as unbroken, wherever it was killed."""
    walk(Stage(world_factory(source, target), orchestrators, MOST_ENTRIES + 1), when)
