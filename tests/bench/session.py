"""One benchmark session: two clusters, every scenario loaded once, every replicator measured in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.bench import latency, starts, throughput
from tests.bench.load import fill
from tests.bench.peers.replicator import Flow, Peer, ReplicatorDied, running
from tests.bench.results import PacedRun, Results, Run
from tests.bench.scenarios import SCENARIOS, Pace, Scenario
from tests.bench.topics import EndOffsets, Topics, count_records

BROKER: Final = {
    "log.segment.delete.delay.ms": "1000",
    "num.network.threads": "3",
    "num.io.threads": "8",
}
"""Kafka's own thread numbers, and the disk space of a finished run back at once."""


_PLAIN: Final[Mapping[str, str]] = {}
FAILURES: Final = (ReplicatorDied, TimeoutError, KafkaException)
"""What costs one figure and not the session."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    peers: Sequence[Peer]
    scenarios: Sequence[Scenario]
    paces: Sequence[Pace]
    rounds: int
    quick: bool
    window_seconds: float
    warm_up_seconds: float
    epoch_seconds: float
    """drkit's epoch length in the latency runs; throughput runs use its default."""
    delay_seconds: float
    """For how long commits of groups are watched."""


@dataclass(slots=True)
class Session:
    """The clusters and what was measured on them so far."""

    plan: Plan
    source: LocalCluster
    target: LocalCluster
    folder: Path
    tell: Callable[[str], None]
    results: Results = field(default_factory=Results)

    def measure(self, done: Callable[[], None]) -> None:
        """Run the whole plan; a replicator that fails costs its own figure only.

        :param done: called after every scenario and pace
        """
        self._warm_brokers()
        for scenario in self.plan.scenarios:
            self._throughput(scenario)
            done()
        for pace in self.plan.paces:
            self._latency(pace)
            done()

    def measure_starts(self) -> None:
        """Start and kill every replicator; one that fails costs its own figures and those after it."""
        self.tell("starts of a replicator")
        flow = self.flow(starts.TOPIC, "none", "start")
        try:
            for run in starts.measure(self.plan.peers, flow, self.plan.rounds, self.wipe, self.tell):
                self.results.restarts.append(run)
        except FAILURES as error:
            self.results.failures.append(f"starts: no figure, {(str(error) or repr(error)).splitlines()[0]}")
            self.tell(f"    failed: {error}")

    def _warm_brokers(self) -> None:
        """Let the brokers' JVMs compile their hot paths, or the first replicator would look slower."""
        self.tell("warming up the brokers")
        warm = replace(SCENARIOS[0], key="warm")
        for cluster in (self.source, self.target):
            Topics(cluster.bootstrap()).create(warm.topic)
            fill(cluster.bootstrap(), warm, warm.quick_records)
            count_records(cluster.bootstrap(), warm.topic)
        self.wipe()

    def wipe(self, *keep: str) -> None:
        """Back to a fresh target and a source that holds the scenario's data only."""
        Topics(self.target.bootstrap()).wipe(set())
        Topics(self.source.bootstrap()).wipe(set(keep))

    def _throughput(self, scenario: Scenario) -> None:
        records = scenario.quick_records if self.plan.quick else scenario.records
        self.tell(f"({scenario.key}) {scenario.title}: writing {records:,} records")
        Topics(self.source.bootstrap()).create(scenario.topic)
        expected = fill(self.source.bootstrap(), scenario, records)
        for number in range(1, self.plan.rounds + 1):
            for peer in self.plan.peers:
                self.wipe(scenario.topic)
                self._throughput_run(scenario, peer, number, expected)
        self.wipe()

    def _throughput_run(self, scenario: Scenario, peer: Peer, number: int, expected: int) -> None:
        flow = self.flow(scenario.topic, scenario.codec, f"{scenario.key}-{number}-{peer.name}")
        ends = EndOffsets(self.target.bootstrap(), scenario.topic)
        run = Run(scenario, peer.name, number, None, expected=expected)
        try:
            with running(peer, flow) as replicator:
                result = throughput.measure(replicator, ends, expected, self.broker_pids())
        except FAILURES as error:
            run = replace(run, failure=str(error))
        else:
            copied = count_records(self.target.bootstrap(), scenario.topic) if number == 1 else None
            run = replace(run, result=result, copied=copied)
        self.results.runs.append(run)
        self.tell(f"    round {number} {peer.name}: {_brief(run)}")

    def _latency(self, pace: Pace) -> None:
        for peer in self.plan.peers:
            self.wipe()
            Topics(self.source.bootstrap()).create(pace.topic)
            self._latency_run(pace, peer)
        self.wipe()

    def _latency_run(self, pace: Pace, peer: Peer) -> None:
        flow = self.flow(pace.topic, "none", f"pace-{pace.per_second}-{peer.name}")
        run = PacedRun(pace, peer.name, None)
        try:
            with running(peer, replace(flow, epoch_seconds=self.plan.epoch_seconds)) as replicator:
                result = latency.measure(
                    replicator,
                    self.source.bootstrap(),
                    self.target.bootstrap(),
                    pace,
                    brokers=self.broker_pids(),
                    warm_up=self.plan.warm_up_seconds,
                    window=self.plan.window_seconds,
                )
        except FAILURES as error:
            run = replace(run, failure=str(error))
        else:
            run = replace(run, result=result)
        self.results.paced.append(run)
        self.tell(f"latency at {pace.per_second}/s, {peer.name}: {_brief(run)}")

    def flow(self, topic: str, codec: str, name: str) -> Flow:
        """What a replicator copies; its files are in a folder of this name."""
        return Flow(self.source.bootstrap(), self.target.bootstrap(), topic, codec, self.folder / name)

    def broker_pids(self) -> list[int]:
        """The processes of both clusters."""
        return [broker.pid for cluster in (self.source, self.target) for broker in cluster.brokers]


@contextmanager
def clusters(
    tell: Callable[[str], None], properties: Mapping[str, str] = _PLAIN
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """A source and a target of one broker each, compiled at full optimisation as in production.

    :param properties: more of the brokers' settings
    """
    settings = {**BROKER, **properties}
    source, target = (
        LocalCluster(
            ClusterSpec(name, heap="1g", properties=settings, jvm=("-XX:TieredStopAtLevel=4",)),
            progress=tell,
        )
        for name in ("source", "target")
    )
    try:
        start_together(source, target)
        yield source, target
    finally:
        source.stop()
        target.stop()


def _brief(run: Run | PacedRun) -> str:
    if run.result is None:
        return f"failed: {run.failure}"
    if isinstance(run.result, throughput.Throughput):
        return (
            f"{run.result.per_second:,.0f} records/s, {run.result.cpu_per_million:.2f} CPU s per million, "
            f"{run.result.seconds:.1f} s after {run.result.startup_seconds:.1f} s of start-up"
        )
    return f"p50 {run.result.p50:.1f} ms, p99 {run.result.p99:.1f} ms, p99.9 {run.result.p999:.1f} ms"
