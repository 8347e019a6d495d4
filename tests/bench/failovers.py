"""How long a failover takes by itself: 20 and 1,000 groups in 12 partitions each, clusters of three brokers.

A real ``drkit replicate`` has copied everything and keeps groups' positions; then ``drkit failover`` moves
one half of the groups with a primary that answers and is fenced, the other with one that was killed. Each
number of groups has clusters and a flow of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import json
from pathlib import Path
import random
import subprocess
import sys
import time
from typing import Any, Final

from confluent_kafka import Producer

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Command, Flow, Peer, Running, running
from tests.bench.positions import Commits, FirstRecords, GroupOffsets
from tests.bench.topics import Topics
from tests.bench.waiting import until

BROKERS: Final = 3
PARTITIONS: Final = 12
COUNTS: Final = (20, 1000)
PRIMARIES: Final = ("answers", "killed")
_ROOT: Final = Path(__file__).parents[2]
_RECORDS: Final = 2400
_SYNC_SECONDS: Final = 180.0
_LOOK_SECONDS: Final = 0.5
_SETTINGS: Final = """\
groups = ["failover-.*"]
[failover]
rpo_seconds = 3600
verify_seconds = 0.1
journal_folder = "{journal}"
"""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FailoverRun:
    """One failover."""

    primary: str
    """Whether it answers (and is fenced), or was killed."""
    groups: int
    seconds: float
    """From the first entry of the journal until the new primary is verified, without DRAIN."""
    command_seconds: float
    """The whole command: start of Python, survey of both clusters, everything."""
    steps: dict[str, float]
    wrong: int
    """Positions of groups on the target that lead to another record than those on the source."""


class _Sets:
    """Topics and their groups, one set for each failover.

    :param groups: in each set
    """

    def __init__(self, source: LocalCluster, target: LocalCluster, groups: int) -> None:
        self._from, self._to, self._groups = source.bootstrap(), target.bootstrap(), groups
        self.commits: dict[str, Commits] = {}
        self._records = FirstRecords(self._to, _RECORDS // PARTITIONS)

    def fill(self) -> None:
        chance = random.Random(1)
        out = Producer({"bootstrap.servers": self._from, "log_level": 0})
        with GroupOffsets(self._from) as source:
            for topic in (f"failover-{p}" for p in PRIMARIES):
                Topics(self._from).create(topic, PARTITIONS, BROKERS)
                for i in range(_RECORDS):
                    out.produce(topic, b"%d" % i, partition=i % PARTITIONS)
                out.flush(60)
                at = [TopicPartition(topic, p) for p in range(PARTITIONS)]
                self.commits[topic] = {
                    f"{topic}-{i:04d}": {tp: chance.randrange(_RECORDS // PARTITIONS + 1) for tp in at}
                    for i in range(self._groups)
                }
                source.commit(self.commits[topic])

    def wrong(self, topic: str) -> int:
        """The number of positions on the target that lead to another record than the committed ones."""
        wanted = self.commits[topic]
        with GroupOffsets(self._to) as target:
            there = target.committed(wanted)
        return self._records.wrong(wanted, there)

    def synced(self, replicator: Running) -> None:
        """Wait until every position is on the target."""
        for topic in self.commits:
            until(
                lambda: self.wrong(topic) == 0,  # noqa: B023  asked at once
                _SYNC_SECONDS, f"positions of the groups of {topic} on the target",
                every=_LOOK_SECONDS, check=replicator.check,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Light:
    """What ``drkit replicate`` does, in one process without Spark."""

    name: str = "drkit"

    def prepare(self, flow: Flow) -> Command:
        """See :class:`tests.bench.peers.replicator.Peer`."""
        Drkit().prepare(flow)
        command = [sys.executable, "-m", "drkit.replicate.solo", str(flow.folder / "drkit.toml")]
        return Command(command, env={"PYTHONPATH": str(_ROOT)})


def measure(folder: Path, tell: Tell, *, quick: bool = False) -> Iterator[FailoverRun]:
    """Every failover once, as it ends.

    :param quick: with a replicator that runs without Spark
    :raises TimeoutError: the replicator did not bring everything to the target
    :raises RuntimeError: a failover was refused or failed
    """
    for count in COUNTS:
        yield from _both(folder / str(count), tell, count, _Light() if quick else Drkit())


def _both(folder: Path, tell: Tell, count: int, peer: Peer) -> Iterator[FailoverRun]:
    """A failover of `count` groups with each state of the primary."""
    with _clusters(tell) as (source, target):
        sets = _Sets(source, target, count)
        tell(f"committing for {count * len(PRIMARIES):,} groups")
        sets.fill()
        settings = _SETTINGS.format(journal=folder / "journal")
        flow = Flow(source.bootstrap(), target.bootstrap(), "failover-.*", "", folder, settings=settings)
        with running(peer, flow) as replicator:
            sets.synced(replicator)
            for primary in PRIMARIES:
                if primary == "killed":
                    source.kill()
                found = _failover(folder / "drkit.toml", sets, primary, count)
                tell(f"    primary {primary}, {count} groups: {found.seconds:.1f} s, {found.steps}")
                yield found


def _failover(config: Path, sets: _Sets, primary: str, count: int) -> FailoverRun:
    topic = f"failover-{primary}"
    command = [
        sys.executable, "-m", "drkit", "failover", "--config", str(config), "--group", f"{topic}-0000",
        "--yes", "--json",
    ]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    took = time.monotonic() - began
    if done.returncode:
        raise RuntimeError(f"drkit failover ended with {done.returncode}: {done.stderr[-1500:]}")
    (config.parent / f"{primary}.json").write_text(done.stdout)
    report: dict[str, Any] = json.loads(done.stdout)
    steps = {k: round(v, 2) for k, v in report["seconds"].items() if k.isupper()}
    moved = len(report["groups"]["moved"])
    if moved != count:
        raise RuntimeError(f"{moved} of {count} groups were moved")
    seconds = report["seconds"]["until_verified"] - report["seconds"]["DRAIN"]
    return FailoverRun(primary, count, round(seconds, 2), round(took, 2), steps, sets.wrong(topic))


@contextmanager
def _clusters(tell: Tell) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    source, target = (LocalCluster(ClusterSpec(name, brokers=BROKERS)) for name in ("source", "target"))
    try:
        tell(f"starting two clusters of {BROKERS} brokers")
        start_together(source, target)
        yield source, target
    finally:
        source.stop()
        target.stop()
