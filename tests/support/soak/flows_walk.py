"""A random walk of operators and faults over several flows, compared with what clients know.

A round: a replicator or a cluster dies under load. Then clients move, by a switchover whose process may be
killed, resumed or aborted, or because the active side dies. Perhaps the new active side dies, too.
Then each old active side returns by the printed command, and all flows copy. At rest both sides, the third
cluster, positions and the status are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
import random
from typing import Final

from drkit.exercise.events import CommandEnded
from drkit.exercise.processes import ProcessParent
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.local.cluster import LocalCluster
from tests.support.failback.pair import CUT
from tests.support.flows.produce import answers
from tests.support.soak.flows_oracle import PARTITIONS, Oracle, Topic
from tests.support.soak.flows_world import ELSEWHERE, FAN_OUTS, MACHINES, OTHER, A, B, C, FlowsWorld, Way
from tests.support.waiting import eventually

_READS: Final = {"status": 1, "divergence": 1, "fence show": 0, "repoint show": 0}
"""Commands that only read, with the largest exit code of one that was answered: a fault, or a divergence."""
_ENTRIES: Final = 30
"""Of a journal, about: an orchestrator that is to be killed at a later one ends."""
_DISPOSITIONS: Final = ("replay", "discard", "quarantine")


class FlowsWalk:
    """One walk.

    :param seed: of all choices
    """

    def __init__(
        self, clusters: Mapping[str, LocalCluster], folder: Path, parent: ProcessParent, seed: int
    ) -> None:
        self._seed, self._chance, self._export = seed, random.Random(seed), str(folder / "export")
        fan_outs = self._chance.choice([FAN_OUTS, FAN_OUTS[:1], FAN_OUTS[1:], ()])
        self.world = FlowsWorld(clusters, folder, parent, fan_outs)
        flow = self.world.flows[(A, B)]
        self.oracle = Oracle(self.world, [flow.name("one"), flow.name("two")])
        self._replaced: dict[str, str] = {}
        """Side that an empty cluster has replaced → its cluster id, until its return."""
        self._next: dict[Way, tuple[str, ...]] = {}
        """Flow → the printed command that makes its old primary the standby."""

    def run(self, rounds: int) -> dict[str, int]:
        """Walk; return what was compared, by kind."""
        world = self.world
        try:
            for topic in self._topics:
                flow = world.flows[(A, B)]
                flow.create(flow.source, topic.name, PARTITIONS, {"retention.ms": "-1"})
                self._work(topic)
            world.replicate((A, B))
            world.flow_from(A).copied([*self.oracle.topics])
            world.replicate()  # a flow from the standby lists these topics at its start
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

    @property
    def _topics(self) -> list[Topic]:
        return list(self.oracle.topics.values())

    def _machine(self) -> str:
        return self._chance.choice(MACHINES)

    # -- a round ------------------------------------------------------------------------------------

    def _round(self) -> None:
        for topic in self._topics:
            self._work(topic)
        self._harm()
        active = self._chance.choice(sorted({t.active for t in self._topics}))
        if self._chance.random() < 0.6:
            self._rest()
            self._refuse_narrow_file(active)
            self._switch(active)
        else:
            self._lose(active)
        waiting = {t.active for t in self._topics if not t.is_protected}
        if waiting and not self._replaced and self._chance.random() < 0.4:
            # It dies before the other side is its standby.
            self._lose(min(waiting))
        for side in (A, B):
            if topics := self.oracle.on(side, protected=False):
                self._return(topics, OTHER[side], side)
        self.world.replicate()

    def _work(self, topic: Topic) -> None:
        self.oracle.write(topic, self._chance.randint(20, 80))
        self.oracle.read_on(topic, f"{topic.name}-near", 1.0)
        self.oracle.read_on(topic, f"{topic.name}-far", self._chance.random() * 0.5)

    def _harm(self) -> None:
        """The replicator or a cluster of one flow is killed under load, and started again."""
        world, way = self.world, self._chance.choice([*self.world.flows])
        victim = self._chance.choice(["replicator", *way])
        world.did(f"SIGKILL {victim} of {way}, under load")
        with self._load(self._topics):
            if victim == "replicator":
                world.stop(way)
            else:
                world.clusters[victim].kill()
                world.clusters[victim].restart()
        world.replicate(*(w for w in world.flows if w == way or victim in w))

    @contextmanager
    def _load(self, topics: Sequence[Topic]) -> Iterator[None]:
        """Clients write to the active side, whatever happens to it."""
        with ExitStack() as stack:
            for topic in topics:
                load = self.oracle.load(topic)
                stack.callback(self.oracle.take, load)
                stack.enter_context(load)
                eventually(lambda load=load: load.count > 10, what=f"a load of {topic.name}")  # type: ignore[misc]
            yield

    def _rest(self) -> None:
        """Everything is copied: compare both logs, groups, copies of the third cluster and the status."""
        world, oracle = self.world, self.oracle
        for side in (A, B):
            if topics := oracle.on(side, protected=True):
                names, flow = [t.name for t in topics], world.flow_from(side)
                flow.copied(names, {g: None for t in topics for g in t.read})
                flow.protected(names)
                oracle.check_copy(flow, topics)
                oracle.counted["offsets"] += flow.exact(names)
        for topic in self._topics:
            oracle.check_active(topic)
            if topic.is_protected:
                oracle.check_groups(topic, OTHER[topic.active], exact=True, seconds=60)
        for flow in (flow for way, flow in world.flows.items() if C in way):
            flow.copied([t.name for t in self._topics])
            oracle.check_copy(flow, self._topics)
        oracle.check_status(world.types("status", machine=self._machine()).answer)

    # -- operators ----------------------------------------------------------------------------------

    def _refuse_narrow_file(self, source: str) -> None:
        """The file of the other machine leaves out a topic: that is refused by its name."""
        names = [t.name for t in self.oracle.on(source, protected=True)]
        if len(names) > 1 and self._chance.random() < 0.5:
            words = self._failover((source, OTHER[source]), "--all", "--planned", "--clients-cut", CUT)
            error = self.world.types(*words, machine=ELSEWHERE, topics=names[:1]).error
            assert error.get("code") == "left_by_configuration", error
            assert names[1] in str(error), error

    def _failover(self, way: Way, *words: str) -> tuple[str, ...]:
        return ("failover", "--flow", self.world.name(way), *words, "--yes")

    def _switch(self, source: str) -> None:
        """A switchover of everything or of one topic, under load; it may be killed, resumed or aborted."""
        topics, target = self.oracle.on(source, protected=True), OTHER[source]
        scope: tuple[str, ...] = ("--all",)
        if len(topics) > 1 and self._chance.random() < 0.5:
            topics = [self._chance.choice(topics)]
            scope = ("--topic", topics[0].name)
        with self._load(topics):
            words = self._failover((source, target), *scope, "--planned", "--clients-cut", CUT)
            report = self._run(words, may_abort=True).answer
        if report["state"] == "aborted":
            for topic in topics:
                self.oracle.write(topic, 5)
                self.oracle.check_active(topic)
            return
        assert report["loss"]["drained"], report["loss"]
        self._moved(topics, source, report["topics"], exact=True)
        self._type_printed(report["next"])

    def _run(self, words: tuple[str, ...], *, may_abort: bool = False) -> CommandEnded:
        """Type a command that writes a journal; end its run on any machine if its process is killed."""
        machine, (verb, *flow) = self._machine(), words[:3]
        kill_at = self._chance.randrange(_ENTRIES) if self._chance.random() < 0.4 else None
        ended = self.world.types(*words, machine=machine, kill_at=kill_at)
        if ended.error.get("code") == "group_worked_on_target" and "--planned" not in words:
            # Before its clients moved on: what is printed leaves the group there.
            assert "--keep-positions" in ended.error["hint"], ended.error
            ended = self.world.types(*words, "--keep-positions", machine=machine)
        if ended.code is None:
            machine = self._machine()
            if may_abort and self._chance.random() < 0.5:
                ended = self.world.types(verb, *flow, "--abort", "--take-over", machine=machine)
            if ended.code != 0:
                ended = self.world.types(verb, *flow, "--resume", "--take-over", machine=machine)
            if ended.error.get("code") == "no_run":  # killed before its first entry was written
                ended = self.world.types(*words, machine=machine)
        assert ended.code == 0, (words, ended.code, ended.error)
        return ended

    def _moved(self, topics: Sequence[Topic], source: str, moved: Mapping[str, str], *, exact: bool) -> None:
        """Clients are on the other side, and work there."""
        for topic in topics:
            assert topic.name in moved, moved
            topic.active, topic.is_protected = OTHER[source], False
            self.oracle.check_active(topic)
            self.oracle.check_groups(topic, topic.active, exact=exact)
            self._work(topic)
            self._check_fence(source, topic)
        self.oracle.check_status(self.world.types("status", machine=self._machine()).answer)

    def _check_fence(self, side: str, topic: Topic) -> None:
        if all(broker.running for broker in self.world.clusters[side].brokers):
            (error,) = answers(self.world.flow_from(side).source, topic.name, [b"both sides are open"])
            assert error is not None, f"both sides take writes: {topic.name} on {side}"

    def _type_printed(self, lines: Sequence[str]) -> None:
        """Type each printed command that only reads, start what is to copy, and keep what comes next."""
        for words in self.world.commands_in(lines):
            for read, largest in _READS.items():
                if " ".join(words).startswith(read):
                    ended = self.world.types(*words, machine=self._machine())
                    assert ended.code in range(largest + 1), ended
            if words[0] == "replicate":
                self.world.replicate(self.world.way_of(words))
            if words[0] == "reprotect":
                self._next[self.world.way_of(words)] = words
            self.oracle.counted["printed commands"] += 1

    def _lose(self, source: str) -> None:
        """The active side dies, perhaps with a tail; the other one is opened; it returns, or is replaced."""
        world, oracle, topics, way = self.world, self.oracle, self.oracle.on(source), (source, OTHER[source])
        has_tail = self._chance.random() < 0.7 or not all(t.is_protected for t in topics)
        if not has_tail:
            self._rest()
        world.stop(*(w for w in world.flows if source in w))
        if has_tail:
            for topic in topics:
                self._work(topic)
        before = {t.name: oracle.log(source, t) for t in topics}
        world.did(f"SIGKILL {source}, with a tail: {has_tail}")
        world.clusters[source].kill()
        words = self._failover(way, "--all", "--accept-data-loss", "the walk")
        report = self._run(words).answer
        for topic in topics:
            oracle.check_loss(topic, report["loss"], before[topic.name], way[1])
        self._moved(topics, source, report["topics"], exact=not has_tail)
        is_alone = topics == self._topics and (source, C) not in world.flows
        if is_alone and self._chance.random() < 0.3:
            self._replaced[source] = world.replace(source)
            self._type_printed([line for line in report["next"] if "reprotect" in line])
            return
        world.clusters[source].restart()
        words = ("fence", "pay", "--flow", world.name(way), "--yes")
        ended = world.types(*words, machine=self._machine())
        assert ended.code == 0, ended
        for topic in topics:
            self._check_fence(source, topic)
        self._type_printed(report["next"])

    def _return(self, topics: Sequence[Topic], source: str, target: str) -> None:
        """The old active side becomes a standby again, by the printed command."""
        world, third, disposition = self.world, (source, C), self._chance.choice(_DISPOSITIONS)
        if third in world.flows:
            ended = world.types(*self._failover(third, "--all", "--dry-run"), machine=self._machine())
            assert ended.code, "a second failover of one source would make a second primary"
        words = (*self._next.pop((source, target)), "--yes")
        if "--clients-cut" not in words:
            words += ("--clients-cut", CUT)
        if new := self._replaced.pop(source, ""):
            disposition = "discard"
            words += ("--new-primary", new, "--reason", "the walk")
        elif any(t.tail for t in topics):
            words += ("--export-to", self._export, "--disposition", f"*={disposition}")
            words += ("--reason", "the walk")
        is_removed = third in world.flows and self._is_read_by_another(words)
        if is_removed:
            self._remove(third)
            eventually(lambda: not self._is_read_by_another(words), 120, "an end of its heartbeats")
        report = self._run(words).answer
        for topic in topics:
            assert topic.name in str(report["topics"]), report["topics"]
            topic.decide(disposition)
        self._type_printed(report["next"])
        if any("restart broker" in line for line in report["next"]):
            world.clusters[source].kill()
            world.clusters[source].restart()
        if is_removed:
            world.add(third)

    def _is_read_by_another(self, words: Sequence[str]) -> bool:
        return self.world.types(*words, "--dry-run").error.get("code") == "other_flow_reads"

    def _remove(self, way: Way) -> None:
        """Take a flow out of the configuration, with its copies and its state, as the refusal asks."""
        flow = self.world.flows[way]
        self.world.stop(way)
        copies = [flow.prefix + topic.name for topic in self._topics]
        for name in (*copies, state_topic(flow.source.alias), offset_map_topic(flow.source.alias)):
            flow.delete(flow.target, name)
        self.world.remove(way)
