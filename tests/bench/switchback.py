"""A planned switchover there and back: 20 topics of 12 partitions, 1,000 groups, under writes.

One ``drkit replicate`` runs both directions on clusters of three brokers. ``drkit failover --planned`` moves
everything; the return begins by itself; when the pair is protected again, the same command moves everything
back. Producers follow the endpoint file: the longest time in which no record of a topic was acknowledged is
how long the pair was unavailable for writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import itertools
import json
from pathlib import Path
import random
import subprocess
import sys
import threading
import time
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from drkit.client import FailoverProducer
from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Flow, Running, running
from tests.bench.positions import Commits, FirstRecords, GroupOffsets
from tests.bench.topics import Topics
from tests.bench.waiting import pause, until

BROKERS: Final = 3
TOPICS: Final = 20
PARTITIONS: Final = 12
GROUPS: Final = 1000
RATE: Final = 100
"""Records a second, of all topics. Each is a request: 400 a second alone fill two processors."""
UNAVAILABLE_GOAL_SECONDS: Final = 5.0
GOAL_SECONDS: Final = 30.0
_RECORDS: Final = 1200
"""Of each topic before the first switchover."""
_PATIENCE: Final = 240.0
_LOOK_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 10.0
_CUT: Final = "clients of the benchmark follow the endpoint file"
_SETTINGS: Final = """\
groups = ["switch-.*"]
[[flows]]
source = "target"
target = "source"
topics = ["switch-.*"]
groups = ["switch-.*"]
tasks = 2
[failover]
rpo_seconds = 3600
verify_seconds = 0.1
journal_folder = "{journal}"
repoint = [{{ kind = "file", path = "{endpoint}" }}]
"""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SwitchRun:
    """One planned switchover of everything; seconds."""

    way: str
    """``there`` or ``back``."""
    seconds: float
    """From the first entry of the journal until the new primary is verified."""
    command_seconds: float
    unavailable_seconds: float
    """The longest time without an acknowledged record, of the topic where it was longest."""
    protected_seconds: float
    """From the end of the command until `drkit status` calls the pair protected in the other direction."""
    steps: dict[str, float]
    wrong: int
    """Positions of groups on the new primary that lead to another record than those on the old one."""


class _Writer:
    """Writes into all topics in turn, wherever the endpoint file leads, and notes when it is acknowledged."""

    def __init__(self, topics: list[str], endpoint: Path) -> None:
        self._topics = topics
        self.acknowledged: dict[str, list[float]] = {topic: [] for topic in topics}
        self.failed: list[KafkaError] = []
        self.silent = 0.0
        """Seconds between the last acknowledgement and the end of writing."""
        self._out = FailoverProducer({"log_level": 0, "linger.ms": 5}, endpoint=endpoint)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self.silent = time.monotonic() - max(t[-1] for t in self.acknowledged.values())
            self._thread.join(60)
            self._out.close(10)

    def _write(self) -> None:
        number = 0
        while not self._ending.wait(len(self._topics) / RATE):
            for topic in self._topics:
                # The partition is given: so each of them gets records all the time.
                self._out.produce(
                    topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
                )
            number += 1
            self._out.poll(0)
        self._out.flush(30)

    def _delivered(self, error: KafkaError | None, message: Message | None) -> None:
        if error is not None or message is None:
            self.failed.append(error or KafkaError(KafkaError._FAIL))
        else:
            self.acknowledged[message.topic() or ""].append(time.monotonic())

    def longest(self, since: float) -> float:
        """The longest time without an acknowledged record of one topic."""
        gaps = []
        for times in self.acknowledged.values():
            mine = [since, *(t for t in times if t > since)]
            gaps += [b - a for a, b in itertools.pairwise(mine)]
        return max(gaps)


class _Sides:
    """The pair and what is in it; the active side is the first one."""

    def __init__(self, source: LocalCluster, target: LocalCluster, folder: Path) -> None:
        self.active, self.passive, self.folder = source, target, folder
        self.topics = [f"switch-{i:02d}" for i in range(TOPICS)]
        self.commits: Commits = {}
        self.endpoint = folder / "endpoint.json"
        each = _RECORDS // PARTITIONS
        self._records = {side.spec.name: FirstRecords(side.bootstrap(), each) for side in (source, target)}

    @property
    def flow(self) -> str:
        return f"{self.active.spec.name}->{self.passive.spec.name}"

    def fill(self) -> None:
        """Topics with records, and groups with a position in each partition of one topic."""
        bootstrap, chance = self.active.bootstrap(), random.Random(1)
        out = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for topic in self.topics:
            Topics(bootstrap).create(topic, PARTITIONS, BROKERS)
            for i in range(_RECORDS):
                out.produce(topic, b"%d" % i, partition=i % PARTITIONS)
            out.flush(60)
        for i in range(GROUPS):
            topic = self.topics[i % TOPICS]
            self.commits[f"switch-{i:04d}"] = {
                TopicPartition(topic, p): chance.randrange(_RECORDS // PARTITIONS + 1)
                for p in range(PARTITIONS)
            }
        with GroupOffsets(bootstrap) as offsets:
            offsets.commit(self.commits)
        primary = ClusterSettings(alias=self.active.spec.name, bootstrap_servers=bootstrap)
        cluster_id = Cluster.connect(primary).cluster_id
        EndpointFile(self.endpoint).tell(endpoint_of(primary, term=0, cluster_id=cluster_id))

    def wrong(self) -> int:
        """The number of positions on the passive side that lead to another record than the committed ones."""
        with GroupOffsets(self.passive.bootstrap()) as there:
            found = there.committed(self.commits)
        return self._records[self.passive.spec.name].wrong(self.commits, found)

    def is_protected(self) -> bool:
        """Whether everything is in step in the direction that copies now."""
        status = self.command("status", "--flow", self.flow)
        pair = status["flows"][0]["pair"] or {"state": "unknown", "parts": []}
        # Before the first switchover both flows copy, and neither side is said to be the active one.
        known = {self.flow} | ({"source<->target"} if self.active.spec.name == "source" else set())
        return pair["state"] == "protected" and {p["direction"] for p in pair["parts"]} <= known

    def command(self, *arguments: str) -> dict[str, Any]:
        """What a command answers.

        :raises RuntimeError: it has no answer
        """
        config = str(self.folder / "drkit.toml")
        command = [sys.executable, "-m", "drkit", *arguments, "--config", config, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if not done.stdout.strip():
            raise RuntimeError(f"drkit {arguments[0]} ended with {done.returncode}: {done.stderr[-1500:]}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def turn(self) -> None:
        """The other side is active now."""
        self.active, self.passive = self.passive, self.active


def measure(folder: Path, tell: Tell) -> Iterator[SwitchRun]:
    """Both switchovers, each as it ends.

    :raises TimeoutError: the pair did not come into step
    :raises RuntimeError: a switchover was refused or failed
    """
    source, target = (LocalCluster(ClusterSpec(name, brokers=BROKERS)) for name in ("source", "target"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        tell(f"starting two clusters of {BROKERS} brokers")
        start_together(source, target)
        sides = _Sides(source, target, folder)
        tell(f"filling {TOPICS} topics, committing for {GROUPS:,} groups")
        sides.fill()
        settings = _SETTINGS.format(journal=folder / "journal", endpoint=sides.endpoint)
        flow = Flow(source.bootstrap(), target.bootstrap(), "switch-.*", "", folder, settings=settings)
        writer = _Writer(sides.topics, sides.endpoint)
        with running(Drkit(), flow) as replicator, writer.writing():
            _protected(sides, replicator)
            until(lambda: not sides.wrong(), _PATIENCE, "positions of groups on the target")
            for way in ("there", "back"):
                found = _switched(sides, writer, replicator, way)
                tell(f"    {way}: {found}")
                yield found
        if writer.failed:
            raise RuntimeError(
                f"{len(writer.failed)} records were not written, the last one that was {writer.silent:.0f} s"
                f" before the end: {writer.failed[0]}"
            )
    finally:
        source.stop()
        target.stop()


def _switched(sides: _Sides, writer: _Writer, replicator: Running, way: str) -> SwitchRun:
    began = time.monotonic()
    report = sides.command(
        "failover", "--flow", sides.flow, "--all", "--planned", "--yes", "--clients-cut", _CUT
    )
    took = time.monotonic() - began
    if report.get("state") != "done":
        raise RuntimeError(f"drkit failover {way}: {str(report)[:1500]}")
    (sides.folder / f"{way}.json").write_text(json.dumps(report))
    wrong, ended, longest = sides.wrong(), time.monotonic(), writer.longest(began)
    sides.turn()
    protected = _protected(sides, replicator) - ended
    steps = {k: round(v, 2) for k, v in report["seconds"].items() if k.isupper()}
    return SwitchRun(
        way,
        round(report["seconds"]["until_verified"], 2),
        round(took, 2),
        round(longest, 2),
        round(protected, 2),
        steps,
        wrong,
    )


def _protected(sides: _Sides, replicator: Running) -> float:
    """Wait until the pair is in step and stays so for some seconds; when it was first seen so."""
    until(sides.is_protected, _PATIENCE, "a pair in step", every=_LOOK_SECONDS, check=replicator.check)
    found = time.monotonic()
    pause(_SETTLE_SECONDS, "it stays in step")
    return found
