"""A disk is full when a step of a failover begins: of the target, of the primary, or of drkit's machine.

Kafka ends a broker whose only log folder takes no write. The disk gets room, the broker is started again,
and what drkit has printed is typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
import re
import shlex
from typing import Any, Final

import pytest

from drkit.exercise.events import CommandEnded
from drkit.exercise.processes import ProcessParent
from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import FAILOVER, ORDER, RunState, StepName
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.children import finish, run_until
from tests.support.each import try_each
from tests.support.failover.fixtures import WorldFactory
from tests.support.failover.settings_file import toml
from tests.support.failover.truth import Load, check_loss, check_order, check_position
from tests.support.failover.world import World
from tests.support.flows.produce import answers
from tests.support.full_disk import SmallDisk, broker_on_small_disk, small_disk
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2400)]
PARTITIONS: Final = 2
BEFORE: Final = 60
PLANNED: Final = ("--planned",)
LOST: Final = ("--accept-data-loss", "the primary is gone")
ABORTABLE: Final = {row.step for row in FAILOVER.rows if row.abortable}
MOST_TRIES: Final = 3


class Case:
    """A failover of one topic and one group; a disk is filled when a step begins."""

    def __init__(self, world: World, parent: ProcessParent, disk: SmallDisk, name: str) -> None:
        self.world, self._parent, self._disk = world, parent, disk
        self.topic, self.group = world.name(f"{name}-orders"), world.name(f"{name}-shop")
        world.create(world.source, self.topic, PARTITIONS, {"retention.ms": "-1"})
        with Load(world.source, [self.topic], per_second=500) as load:
            eventually(lambda: load.count > BEFORE, what="load")
        self.acked = load.acked[self.topic]
        ends = world.offsets(world.source, self.topic)
        self.upstream = {TopicPartition(self.topic, p): e // 2 for p, e in ends.items()}
        world.commit(world.source, self.group, self.upstream)

    def fail_over(self, file: Path, step: StepName, *options: str) -> CommandEnded:
        """Fill the disk when the step begins; how the command ended."""
        words = ("failover", "--group", self.group, "--yes", *options)
        child = self._parent.run_command(file, *words)

        def begins(entry: Any) -> bool:
            return (entry.step, entry.kind, entry.effect) == (step, EntryKind.INTENT, "")

        assert run_until(child, begins) is not None, child.ended()
        self._disk.fill()
        child.proceed()
        ended = finish(child)
        assert "Traceback" not in child.printed, child.printed
        assert ended.error.get("code") != "unexpected_error", ended.error
        return ended

    def typed(self, file: Path, *words: str) -> CommandEnded:
        """A command, to its end."""
        child = self._parent.run_command(file, *words)
        ended = finish(child)
        assert "Traceback" not in child.printed, child.printed
        assert ended.error.get("code") != "unexpected_error", ended.error
        return ended


def next_command(error: Mapping[str, Any], wanted: str) -> tuple[str, ...]:
    """Return the words of the command with an option that a hint prints; else of the one to resume."""
    found = [shlex.split(c) for c in re.findall(r"drkit failover[^;,()]*", str(error["hint"]))]
    assert [words for words in found if "--resume" in words], error
    [words] = [words for words in found if wanted in words] or [["drkit", "failover", wanted]]
    return tuple(w for w in words[1:] if w != "--config" and not w.endswith(".toml"))


def check_done(case: Case, report: Mapping[str, Any], *, planned: bool) -> None:
    """The failover is whole: what the source had, once and in its order, or stated as lost."""
    world, run, topic = case.world, case.world.run_log(), case.topic
    assert run.state is RunState.DONE
    assert not violations(run)
    theirs, ours = world.records(world.source, topic), world.records(world.target, topic)
    check_order(theirs, ours, topic)
    lost = check_loss(report["loss"]["partitions"], theirs, ours, case.acked, topic)
    committed = world.committed(world.target, case.group)
    for at, upstream in case.upstream.items():
        p = at.partition
        check_position(at, upstream, committed[at].offset, theirs[p], ours[p])
    if planned:
        assert (report["loss"]["exact"], report["loss"]["records"], lost) == (True, 0, 0), report["loss"]
    assert answers(world.source, topic, [b"late"])[0] is not None, "the old primary takes writes"
    assert answers(world.target, topic, [b"first"]) == [None]


def check_aborted(case: Case) -> None:
    """The source takes writes, nothing of it is gone, and the copy continues."""
    world, topic = case.world, case.topic
    assert world.run_log().state is RunState.ABORTED
    eventually(lambda: answers(world.source, topic, [b"late"]) == [None], 30, "writes on the source")
    eventually(
        lambda: sum(world.offsets(world.target, topic).values()) >= len(case.acked) + 1, 60, "the copy"
    )
    theirs, ours = world.records(world.source, topic), world.records(world.target, topic)
    check_order(theirs, ours, topic)
    assert {a.value for a in case.acked} <= {s.value for found in ours.values() for s in found}


class Stage:
    """All steps of a failover, one after the other, each with a topic of its own."""

    def __init__(
        self, world: World, disk: SmallDisk, folder: Path, *, options: tuple[str, ...], where: str
    ) -> None:
        self.world, self._disk, self._options, self.where = world, disk, options, where
        self._file, self._quiet = folder / "drkit.toml", world.name("quiet")
        self._file.write_text(toml(world.plain()), encoding="utf-8")

    def walk(self, steps: tuple[StepName, ...], end: str) -> None:
        """Fill the disk in each step, give it room, and type what is printed."""
        with ProcessParent() as parent:
            cases = [Case(self.world, parent, self._disk, f"n{n}") for n in range(len(steps))]
            self.world.create(self.world.source, self._quiet, 1, {})
            self.world.replicate()
            self.world.copied([c.topic for c in cases], {c.group: None for c in cases})
            scenes = zip(cases, steps, strict=True)
            try_each({f"{self.where} {end} {s}": partial(self._one, case, s, end) for case, s in scenes})

    def _one(self, case: Case, step: StepName, end: str) -> str:
        planned = "--planned" in self._options
        if not planned:
            self.world.brokers[0].kill()
        try:
            ended = case.fail_over(self._file, step, *self._options)
            away = case.typed(self._file, "status")
        finally:
            self._disk.free()
            for cluster in self.world.brokers[not planned :]:
                cluster.restart()
            if planned:
                self._copies()
        said = f"{ended.code} {ended.error.get('code', '')} {ended.error.get('hint', '')}"
        if ended.code:
            assert self.where in str(ended.error), ended.error
            assert away.code is not None
            ended = self._continued(case, ended, end if step in ABORTABLE else "--resume")
        self.world.brokers[0].restart()
        if self.world.run_log().state is RunState.ABORTED:
            check_aborted(case)
            return said
        if not planned:
            paid = case.typed(self._file, "fence", "pay", "--yes")
            assert paid.code == 0, paid
        check_done(case, ended.answer, planned=planned)
        return said

    def _copies(self) -> None:
        """Wait until the replicator copies again."""
        world, before = self.world, self.world.offsets(self.world.target, self._quiet)[0]
        assert answers(world.source, self._quiet, [b"more"]) == [None]
        eventually(
            lambda: world.offsets(world.target, self._quiet)[0] > before, 90, f"a copy: {world.said()}"
        )

    def _continued(self, case: Case, ended: CommandEnded, end: str) -> CommandEnded:
        for _ in range(MOST_TRIES):
            if self.world.run_log().state is RunState.REFUSED:  # it has changed nothing
                words: tuple[str, ...] = ("failover", "--group", case.group, *self._options)
            else:
                words = next_command(ended.error, end)
            ended = case.typed(self._file, *words, *(() if "--resume" in words else ("--yes",)))
            if not ended.code:
                break
        assert ended.code == 0, ended
        return ended


@pytest.fixture
def pair(module_cluster: ModuleClusters) -> tuple[LocalCluster, LocalCluster]:
    number = len(module_cluster.made)  # others than those whose data a test has put back
    return module_cluster(f"primary{number}"), module_cluster(f"standby{number}")


@pytest.mark.parametrize("end", ["--resume", "--abort"])
@pytest.mark.parametrize(("options", "side"), [(PLANNED, "target"), (PLANNED, "source"), (LOST, "target")])
def test_the_disk_of_a_broker_is_full(
    world_factory: WorldFactory,
    pair: tuple[LocalCluster, LocalCluster],
    tmp_path: Path,
    options: tuple[str, ...],
    side: str,
    end: str,
) -> None:
    world = world_factory(*pair)
    [broker] = world.brokers[side == "target"].brokers
    with broker_on_small_disk(broker) as disk:
        world.brokers[side == "target"].restart()
        alias = (world.target if side == "target" else world.source).alias
        Stage(world, disk, tmp_path, options=options, where=alias).walk(ORDER, end)


def test_the_disk_of_drkits_machine_is_full(
    world_factory: WorldFactory, pair: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """The folder of its journals and the endpoint file are on it."""
    world = world_factory(*pair)
    with small_disk(tmp_path / "small", 4) as disk:
        world.failover_fields |= {
            "journal_folder": str(disk.folder / "journal"),
            "repoint": [{"kind": "file", "path": str(disk.folder / "endpoint.json")}],
        }
        options = (*PLANNED, "--repoint-others")  # one group of each step moves
        Stage(world, disk, tmp_path, options=options, where=str(disk.folder)).walk(ORDER, "--resume")
