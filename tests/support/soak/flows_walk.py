"""A random walk of operators and faults over several flows, compared with what clients know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
import random
from typing import Final

from drkit.chaos.processes import CommandResult, ProcessParent
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failback.pair import CUT
from tests.support.failover.truth import Load
from tests.support.flows.produce import answers
from tests.support.soak.flows_oracle import PARTITIONS, Log, Oracle, Topic, replaced
from tests.support.soak.flows_world import (
    ELSEWHERE,
    FAN_OUTS,
    HERE,
    MACHINES,
    OTHER,
    A,
    B,
    C,
    FlowsWorld,
    Way,
)
from tests.support.waiting import eventually

_READ_ONLY: Final = {"status", "divergence", "fence show", "repoint show", "translate"}
_LONGEST_RUN: Final = 30
"""Entries of a journal; an orchestrator that is to be killed at a later one ends."""
_DISPOSITIONS: Final = ("replay", "discard", "quarantine")
_LATER: Final = {"members_on_target", "source_alive", "old_primary_stopped_answering"}


class FlowsWalk:
    """One walk.

    :param seed: of all choices
    """

    def __init__(
        self, clusters: dict[str, LocalCluster], folder: Path, warm: ProcessParent, seed: int
    ) -> None:
        self.chance = random.Random(seed)
        fan_outs = self.chance.choice([FAN_OUTS, FAN_OUTS[:1], FAN_OUTS[1:], ()])
        self.world = FlowsWorld(clusters, folder, warm, fan_outs)
        one = self.world.flows[(A, B)]
        self.oracle = Oracle(self.world, [one.name("one"), one.name("two")])
        self._ever: set[Way] = {(A, B)}
        """Directions of the pair that have copied."""
        self._ways_on: dict[Way, tuple[str, ...]] = {}
        """Flow → the printed command that makes its old primary the standby."""
        self._folder, self._seed = folder, seed

    def run(self, rounds: int) -> dict[str, int]:
        """Walk; returns what was compared, by kind."""
        world = self.world
        try:
            for topic in self.oracle.topics.values():
                flow = world.flows[(A, B)]
                flow.create(flow.source, topic.name, PARTITIONS, {"retention.ms": "-1"})
                self._work(topic)
            world.replicate()
            self._rest()
            for _ in range(rounds):
                self._round()
            self._rest()
        except BaseException as error:
            error.add_note("\n".join([f"seed {self._seed}, flows {[*world.flows]}", *world.steps]))
            raise
        finally:
            world.close()
        return dict(self.oracle.counted)

    def _did(self, what: str) -> None:
        self.world.steps.append(what)

    # -- a round ------------------------------------------------------------------------------------

    def _round(self) -> None:
        chance = self.chance
        for topic in self.oracle.topics.values():
            self._work(topic)
        self._harm()
        if chance.random() < 0.7:
            self._rest()
        active = chance.choice(sorted({t.active for t in self.oracle.topics.values()}))
        if chance.random() < 0.6:
            self._rest()
            self._narrow(active)
            self._switch(active)
        else:
            self._lose(active)
        if chance.random() < 0.3 and self._both_directions():
            # The new primary dies before the old one is its standby.
            waits = sorted({t.active for t in self.oracle.topics.values() if not t.is_protected})
            if waits:
                self._lose(waits[0])
        self._return()

    def _both_directions(self) -> bool:
        return self._ever >= {(A, B), (B, A)}

    def _work(self, topic: Topic) -> None:
        self.oracle.write(topic, self.chance.randint(20, 80))
        for group in ("near", "far"):
            share = 1.0 if group == "near" else self.chance.random() * 0.5
            self.oracle.reads(topic, f"{topic.name}-{group}", share)

    def _harm(self) -> None:
        """Something is killed under load, and started again."""
        world, way = self.world, self.chance.choice([*self.world.flows])
        what = self.chance.choice(["replicator", *way])
        self._did(f"SIGKILL {what} of {way}, under load")
        with self._load([*self.oracle.topics.values()]):
            if what == "replicator":
                world.stop(way)
            else:
                world.bounce(what)
        world.replicate(*(w for w in world.flows if what in {"replicator", *w}))

    @contextmanager
    def _load(self, topics: Sequence[Topic]) -> Iterator[None]:
        """Clients write to the active side, whatever becomes of it."""
        loads = []
        for topic in topics:
            side = self.world.flow_at(topic.active).source
            loads.append(Load(side, [topic.name], per_second=100))
            self.oracle.counted["loads"] += 1
            loads[-1]._number = 1_000_000 * self.oracle.counted["loads"]
            loads[-1].__enter__()
            first = loads[-1]
            eventually(lambda: first.count > 10, what=f"a load of {topic.name}")  # noqa: B023
        try:
            yield
        finally:
            for load in loads:
                load.__exit__()
                self.oracle.heard(load)

    def _rest(self) -> None:
        """Everything is copied; both logs, groups, fan-outs and the status are compared."""
        world, oracle = self.world, self.oracle
        for side in (A, B):
            topics, flow = oracle.on(side, protected=True), world.flow_at(side)
            if topics:
                names = [t.name for t in topics]
                flow.copied(names, {g: None for t in topics for g in t.read})
                flow.protected(names)
                oracle.copy_is_right(flow, topics)
                self.oracle.counted["offsets"] += flow.exact(names)
                for topic in topics:
                    eventually(lambda: self._synced(topic), 60, f"positions of {topic.name}")  # noqa: B023
        for topic in oracle.topics.values():
            oracle.active_is_right(topic)
        for way, flow in world.flows.items():
            if C in way and way not in world.removed:
                flow.copied([t.name for t in oracle.topics.values()])
                oracle.copy_is_right(flow, [*oracle.topics.values()])
        said = world.types("status", machine=self.chance.choice(MACHINES))
        oracle.status_is_right(said.answer)

    def _synced(self, topic: Topic) -> bool:
        """Return whether groups are on the standby where they are on the active side."""
        with suppress(AssertionError):
            self.oracle.groups_are_right(topic, OTHER[topic.active], exact=True)
            return True
        return False

    # -- operators ----------------------------------------------------------------------------------

    def _narrow(self, source: str) -> None:
        """The file of the other machine leaves out a topic: nothing is left behind unsaid."""
        names = [t.name for t in self.oracle.on(source, protected=True)]
        if len(names) < 2 or self.chance.random() < 0.5:
            return
        self.world.narrow[ELSEWHERE] = names[:1]
        flow = self.world.name((source, OTHER[source]))
        words = ("failover", "--flow", flow, "--all", "--planned", "--clients-cut", CUT, "--yes")
        said = self.world.types(*words, machine=ELSEWHERE)
        assert said.error.get("code") == "left_by_configuration", (said.code, said.error, said.out[-500:])
        assert names[1] in str(said.error), said.error
        del self.world.narrow[ELSEWHERE]

    def _switch(self, source: str) -> None:
        """A switchover of everything or of one topic, under load; its process may be killed."""
        topics, target = self.oracle.on(source, protected=True), OTHER[source]
        if not topics:
            return
        scope: tuple[str, ...] = ("--all",)
        if len(topics) > 1 and self.chance.random() < 0.5:
            topics = [self.chance.choice(topics)]
            scope = ("--topic", topics[0].name)
        flow = self.world.name((source, target))
        words = ("failover", "--flow", flow, *scope, "--planned", "--clients-cut", CUT, "--yes")
        with self._load(topics):
            said = self._typed(words, may_abort=True)
        if said.answer["state"] == "aborted":
            for topic in topics:
                self.oracle.write(topic, 5)
                self.oracle.active_is_right(topic)
            return
        self._moved(topics, target, said, exact=True)
        assert said.answer["loss"]["drained"], said.answer["loss"]
        for topic in topics:
            self._refuses(source, topic)
        self._type_printed(said.answer["next"])

    def _typed(self, words: tuple[str, ...], *, may_abort: bool = False) -> CommandResult:
        """Type a command that writes a journal, killed at an entry or not, and end its run."""
        chance = self.chance
        machine = chance.choice(MACHINES)
        kill_at = chance.randrange(_LONGEST_RUN) if chance.random() < 0.4 else None
        said = self.world.types(*words, machine=machine, kill_at=kill_at)
        verb, flow = words[0], words[1:3]
        if said.code is None:
            machine = chance.choice(MACHINES)
            if may_abort and chance.random() < 0.5:
                said = self.world.types(verb, *flow, "--abort", "--take-over", machine=machine)
                if said.code == 0:
                    return said
                assert "--resume" in said.error["hint"], said.error
            said = self.world.types(verb, *flow, "--resume", "--take-over", machine=machine)
            if said.error.get("code") in {"no_run", "nothing_begun"}:  # killed before its first entry
                said = self.world.types(*words, machine=machine)
        assert said.code == 0, (words, said.code, said.error or said.err[-2000:])
        assert said.answer["state"] in {"done", "aborted"}, said.answer
        return said

    def _moved(self, topics: Sequence[Topic], target: str, said: CommandResult, *, exact: bool) -> None:
        """Clients are on the target, and work there."""
        for topic in topics:
            topic.active, topic.is_protected = target, False
            assert topic.name in said.answer["topics"], said.answer["topics"]
            self.oracle.active_is_right(topic)
            self.oracle.groups_are_right(topic, target, exact=exact)
            self._work(topic)

    def _type_printed(self, lines: Sequence[str]) -> None:
        """Type each printed command that only reads, start what is to copy, and keep the way on."""
        for words in self.world.commands_in(lines):
            verb = next((v for v in _READ_ONLY if " ".join(words).startswith(v)), "")
            if verb:
                read = self.world.types(*words, machine=self.chance.choice(MACHINES))
                assert read.code in ({0, 1} if verb == "status" else {0}), (words, read.code, read.error)
            elif words[0] == "replicate":
                self.world.replicate(self.world.way_of(words))
            elif words[0] == "reprotect":
                self._ways_on[self.world.way_of(words)] = words
            self.oracle.counted["printed commands"] += 1

    def _refuses(self, cluster: str, topic: Topic) -> None:
        """The old active side takes no writes."""
        side = self.world.flow_at(cluster).source
        (error,) = answers(side, topic.name, [b"both sides are open"])
        assert error is not None, f"both sides take writes: {topic.name} on {cluster}"

    def _lose(self, source: str) -> None:
        """The active side dies, perhaps with a tail; the other one is opened; it returns, and is fenced."""
        world, oracle, target = self.world, self.oracle, OTHER[source]
        topics = oracle.on(source)
        way = (source, target)
        tail = self.chance.random() < 0.7 or not all(t.is_protected for t in topics)
        if not tail:
            self._rest()
        world.stop(*world.touching(source))
        if tail:
            for topic in topics:
                self._work(topic)
        before: dict[str, Log] = {t.name: oracle.log(source, t) for t in topics}
        self._did(f"SIGKILL {source}, tail: {tail}")
        world.clusters[source].kill()
        flow = world.name(way)
        words = ("failover", "--flow", flow, "--all", "--accept-data-loss", "the walk", "--yes")
        said = self._typed(words)
        for topic in topics:
            oracle.loss_is_printed(topic, said.answer, before[topic.name], target)
        self._moved(topics, target, said, exact=not tail)
        world.clusters[source].restart()
        probe = TopicPartition(topics[0].name, 0)
        eventually(lambda: world.flow_at(source).offsets(world.flow_at(source).source, probe.topic))
        paid = world.types("fence", "pay", "--flow", flow, "--yes", machine=self.chance.choice(MACHINES))
        assert paid.code == 0, paid.error
        for topic in topics:
            self._refuses(source, topic)
        self._type_printed(said.answer["next"])
        world.replicate(*(w for w in world.touching(source) if w != way or oracle.on(source)))

    # -- the return ---------------------------------------------------------------------------------

    def _return(self) -> None:
        """The old active sides become standbys again."""
        for target in (A, B):
            topics = self.oracle.on(target, protected=False)
            if topics:
                self._second_successor(OTHER[target])
                self._returned(topics, OTHER[target], target)
        self.world.replicate()

    def _second_successor(self, source: str) -> None:
        """A source has one promoted successor: its flow to the third cluster is no failover target."""
        if (source, C) in self.world.flows:
            flow = self.world.name((source, C))
            said = self.world.types("failover", "--flow", flow, "--all", "--dry-run")
            assert said.code != 0, "two primaries"

    def _returned(self, topics: Sequence[Topic], source: str, target: str) -> None:
        world, chance = self.world, self.chance
        what = chance.choice(_DISPOSITIONS)
        words = (*self._ways_on.pop((source, target)), "--yes")
        if "--clients-cut" not in words:
            words += ("--clients-cut", CUT)
        if any(t.lost for t in topics):
            export = str(self._folder / "export")
            words += ("--export-to", export, "--disposition", f"*={what}", "--reason", "the walk")
        said = world.types(*words, "--dry-run")
        if said.error.get("code") == "other_flow_reads":
            self._take_out((source, C))
        said = self._typed(words)
        for topic in topics:
            replaced(topic, what)
            topic.is_protected = True
            assert topic.name in str(said.answer["topics"]), said.answer["topics"]
        self._type_printed(said.answer["next"])
        for line in said.answer["next"]:
            if "restart broker" in line:
                world.bounce(source)
        self._ever.add((target, source))
        world.replicate(*world.touching(source))
        if (source, C) in world.removed:
            self._put_back((source, C))

    def _take_out(self, way: Way) -> None:
        """Take a flow out of all configurations, as the runbook of the refusal has it."""
        self._did(f"{way} is taken out")
        self.world.stop(way)
        self.world.removed.add(way)

    def _put_back(self, way: Way) -> None:
        """Once the pair is protected, copy a flow from the start again."""
        world, flow = self.world, self.world.flows[way]
        self._did(f"{way} is put back")
        self._rest()
        copies = [f"{flow.source.alias}.{name}" for name in self.oracle.topics]
        for name in (*copies, state_topic(flow.source.alias), offset_map_topic(flow.source.alias)):
            flow.delete(flow.target, name)
        world.removed.discard(way)
        world.replicate(way)


def walk(
    clusters: dict[str, LocalCluster], folder: Path, warm: ProcessParent, seed: int, rounds: int
) -> dict[str, int]:
    """Walk once; returns what was compared."""
    (folder / HERE).mkdir(parents=True, exist_ok=True)
    return FlowsWalk(clusters, folder, warm, seed).run(rounds)
