"""A copy under load to which a schedule of bad things happens; at the end everything is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
import json

from drkit.copy_task.core.assignment import TaskAssignment
from drkit.local.cluster import LocalCluster
from drkit.local.link import Direction
from tests.support.exactness.cleaning import clean_often
from tests.support.exactness.history import BAD
from tests.support.exactness.moments import map_records
from tests.support.exactness.recorded_load import KINDS, Kind, RecordedLoad
from tests.support.exactness.schedule import Step
from tests.support.exactness.truth import Truth, exact
from tests.support.flows.flow import Flow
from tests.support.flows.process import CopyProcess
from tests.support.waiting import eventually

LINKED = ("CLIENT", "REPLICATION")
"""The copy tasks' ways to the target; the flow itself uses a third one."""
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}


class Walker:
    """Walks a schedule.

    :param kinds: one topic is made for each
    :param clean_map: Kafka's cleaner compacts the offset map within seconds
    """

    def __init__(
        self,
        flow: Flow,
        source: LocalCluster,
        target: LocalCluster,
        name: str,
        *,
        seed: int,
        kinds: tuple[Kind, ...] = KINDS,
        partitions: int = 2,
        per_second: int = 100,
        clean_map: bool = True,
    ) -> None:
        self.flow, self.source, self.target = flow, source, target
        self.seed, self.per_second = seed, per_second
        self.truths: dict[Kind, Truth] = {}
        self.done: list[str] = []
        self.kills = 0
        self._role = LINKED[0]
        self._task: CopyProcess | None = None
        self._load = ExitStack()
        for number, kind in enumerate(kinds):
            # The broker recompresses; half of the topics are kept from it.
            own = {"compression.type": "producer"} if (number + seed) % 2 else {}
            config = self._config(kind)
            # As in life the copy is compacted, too; half of them are not, and show every record.
            both = kind.compacted and not (number + seed) % 2
            own |= {"cleanup.policy": "compact"} if both else {}
            topic = self.create(f"{name}-{kind.name}", partitions, config, own)
            self.truths[kind] = Truth(flow, topic, partitions, compacted=kind.compacted, both_compact=both)
        if clean_map:
            clean_often(flow, flow.target, flow.map_topic)

    @staticmethod
    def _config(kind: Kind) -> dict[str, str]:
        return {"retention.ms": "-1", **(COMPACT if kind.compacted else {})}

    def create(self, name: str, partitions: int, config: dict[str, str], on_target: dict[str, str]) -> str:
        """Create one topic on both sides."""
        return self.flow.create_both(name, partitions, config=config, target_config=on_target)

    def walk(self, steps: list[Step]) -> Counter[str]:
        """All steps under load, and the verdict."""
        self.say(f"seed {self.seed}, {len(steps)} steps")
        with self:
            for step in steps:
                self.say(f"{len(self.done)}: {step}")
                self.done.append(str(step))
                self.step(step)
        return self.check()

    def say(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201 - what a failed walk did is its result

    def __enter__(self) -> None:
        self.write()

    def __exit__(self, *_: object) -> None:
        self.settle()

    def write(self) -> None:
        """Begin to write to every topic."""
        for number, (kind, truth) in enumerate(self.truths.items()):
            seed = self.seed + 100 * len(self.done) + number
            self._load.enter_context(RecordedLoad(truth, kind, per_second=self.per_second, seed=seed))

    def quiet(self) -> None:
        """No more records until :meth:`write`; all that was sent is settled."""
        self._load.close()

    def settle(self) -> None:
        """Nothing is written and nothing is copied any more."""
        self.quiet()
        for role in LINKED:
            if role in self.target.spec.linked:
                self.target.link(role).restore()
        self.kill()

    # -- the copy task --------------------------------------------------------------------------------

    def lease(self, *, once: bool = False) -> TaskAssignment:
        topics = {truth.topic: truth for truth in self.truths.values()}
        made = self.flow.lease(*topics, once=once, seconds=300)
        parts = tuple(replace(p, compacted=topics[p.source_topic].compacted) for p in made.partitions)
        return replace(made, partitions=parts)

    def begin(self, role: str) -> CopyProcess:
        return self.flow.start(lease=self.lease(), through=self.target.bootstrap(role))

    def running(self) -> CopyProcess:
        """The task, started again when it has ended by itself."""
        if self._task is not None and not self._task.running:
            self._task.report()  # how it ended is its own matter, but not by a crash
            self._task = None
        if self._task is None:
            self._task = self.begin(self._role)
        return self._task

    def kill(self) -> None:
        if self._task is not None and self._task.running:
            self._task.kill()
            self.kills += 1
        self._task = None

    def copying(self, seconds: float, records: int = 1) -> None:
        """The task runs, until it has copied something or for some seconds."""
        task, before = self.running(), self.copied()
        with suppress(AssertionError):
            eventually(lambda: task.ended_within(0.1) or self.copied() >= before + records, seconds)

    def copied(self) -> int:
        """The sum of all ends on the target."""
        ends = (self.flow.offsets(self.flow.target, t.topic, committed=False) for t in self.truths.values())
        return sum(sum(each.values()) for each in ends)

    def wait(self, seconds: float) -> None:
        self.running().ended_within(seconds)

    # -- steps ----------------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        self.steps()[step.what](step)

    def steps(self) -> dict[str, Callable[[Step], None]]:
        """All that may happen, by its name in a schedule."""
        return {
            "kill": self._killed,
            "kill slow": self._killed_slow,
            "kill after a claim": self._killed_after_a_claim,
            "kill, gap, kill": self._killed_around_a_gap,
            "twice": self._twice,
            "takeover": self._takeover,
            "takeover with a gap": self._takeover_with_a_gap,
            "gap": self.gap,
            "brokers": self._brokers,
            "recreated": self._recreated,
            "check": self._checked,
        }

    def _killed(self, step: Step) -> None:
        if step.second < 0.8:
            self.copying(10)
        self.wait(2.5 * step.first)
        self.kill()

    @contextmanager
    def _slow(self, step: Step) -> Iterator[None]:
        if self._role not in self.target.spec.linked:
            yield
            self.kill()
            return
        link = self.target.link(self._role)
        link.slow(delay_ms=30 + 250 * step.second)
        yield
        self.kill()
        eventually(lambda: not link.connections, what="the end of what the link holds")
        link.restore()

    def _killed_slow(self, step: Step) -> None:
        self.copying(10)
        with self._slow(step):
            self.wait(2 * step.first)

    def _killed_after_a_claim(self, step: Step) -> None:
        self.kill()
        before = map_records(self.flow)
        with self._slow(step):
            task = self.running()
            with suppress(AssertionError):
                eventually(lambda: task.ended_within(0.01) or map_records(self.flow) > before, 15)
            self.wait(0.3 * step.first)

    def _killed_around_a_gap(self, step: Step) -> None:
        self._killed_after_a_claim(step)
        self.gap(step)
        self.copying(10)
        self.wait(3 * step.first)
        self.kill()

    def gap(self, step: Step) -> None:
        """Retention on the source: up to its end, or to any offset."""
        truths = [t for t in self.truths.values() if not t.compacted]
        if not truths:
            return  # Kafka deletes no records of a topic that is only compacted
        truth = truths[int(step.first * len(truths))]
        p = int(step.second * len(truth.partitions))
        truth.read()
        start = self.flow.starts(self.flow.source, truth.topic)[p]
        end = self.flow.offsets(self.flow.source, truth.topic)[p]
        before = end if step.third < 0.5 else start + int((end - start) * (2 * step.third - 1))
        if before > start:
            self.flow.delete_records(truth.topic, p, before)

    def _twice(self, step: Step) -> None:
        """Two tasks at once, by mistake, each with its own way to the target."""
        self.copying(10)
        other = self.begin(self._other)
        self.wait(1 + 2 * step.first)
        self.kill()
        self._task, self._role = other, self._other
        self.wait(step.second)
        self.kill()

    @property
    def _other(self) -> str:
        return LINKED[1 - LINKED.index(self._role)]

    def _takeover(self, step: Step) -> None:
        self._taken_over(step, lambda: None)

    def _takeover_with_a_gap(self, step: Step) -> None:
        self._taken_over(step, lambda: self.gap(step))

    def _taken_over(self, step: Step, meanwhile: Callable[[], None]) -> None:
        """A task's last appends are late, it is frozen; its successor works when they arrive; it wakes up."""
        self.copying(10)
        old, link = self.running(), self.target.link(self._role)
        link.stall(Direction.TO_BROKER)
        self.wait(0.2 + step.first)
        old.freeze()
        meanwhile()
        other = self.target.link(self._other)
        other.slow(delay_ms=200 * step.second)
        before = map_records(self.flow)
        self._task, self._role = None, self._other
        self.running()
        if step.third < 0.7:
            with suppress(AssertionError):
                eventually(lambda: map_records(self.flow) > before, 10)
        self.wait(step.third)
        link.restore()
        self.wait(1 + step.second)
        other.restore()
        old.resume()
        self.wait(2 * step.first)
        if old.running:
            old.kill()
            self.kills += 1

    def _brokers(self, step: Step) -> None:
        for cluster in [[self.source], [self.target], [self.source, self.target]][int(3 * step.first)]:
            for broker in cluster.brokers:
                (broker.kill if step.second < 0.5 else broker.terminate)()
        for cluster in (self.source, self.target):
            cluster.restart()

    def _recreated(self, step: Step) -> None:
        """All is copied; then a topic of the source is deleted, and another one of its name created."""
        self.settle()
        self.check()
        kind, truth = list(self.truths.items())[int(step.first * len(self.truths))]
        self.flow.delete(self.flow.source, truth.topic)
        truth.recreated()
        self.flow.create(self.flow.source, truth.topic, len(truth.partitions), self._config(kind))
        self.write()

    def _checked(self, _: Step) -> None:
        self.settle()
        self.check()
        self.write()

    # -- the verdict ----------------------------------------------------------------------------------

    def check(self) -> Counter[str]:
        """Copy the rest here, and compare everything."""
        report = self.flow.copy(lease=replace(self.lease(once=True), epoch_seconds=200.0))
        assert report.ended == "once", report
        counts = {kind.name: truth.verdict() for kind, truth in self.truths.items()}
        bad = {n: c for n, c in counts.items() if any(c[b] for b in BAD)}
        self.say(f"kills {self.kills}: " + json.dumps(counts))
        events = self.flow.events() if bad else []
        for name, count in counts.items():
            exact(count, f"seed {self.seed}, after {len(self.done)} steps, {name} of {list(bad)}", events)
        return sum(counts.values(), Counter[str]())
