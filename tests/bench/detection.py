"""How long until a lost primary is called lost: ``python -m tests.bench.detection``.

Real clusters, a real ``drkit replicate`` on Spark, three ``drkit watch`` processes with the default
settings, of which two must agree. Each round kills (SIGKILL) or freezes (SIGSTOP) all brokers of the primary
at a random moment, and takes the time until the first and until the last observer says LOST.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
import json
from pathlib import Path
import random
import subprocess
import sys
import tempfile
import threading
import time
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.bench.waiting import pause, until
from tests.support.flows.compare import NOT_YET

OBSERVERS: Final = 3
GOAL_SECONDS: Final = 12.0
_MAIN: Final = "from drkit.cli.main import main; main()"
_PATIENCE: Final = 180.0
_ANY_MOMENT: Final = (2.0, 4.0)
"""Seconds before a loss, so that it falls anywhere between two heartbeats and two probes."""


class DetectionRun(NamedTuple):
    """One loss of a primary, and after how many seconds observers called it lost."""

    kind: str
    first: float
    last: float


class Line(NamedTuple):
    """A verdict, and when it was printed."""

    at: float
    verdict: str
    reason: str
    command: str = ""


class Watcher:
    """One ``drkit watch --json``."""

    def __init__(self, config: Path, name: str) -> None:
        self.lines: list[Line] = []
        self.config = config
        log = config.with_name(f"{name}.log").open("wb")
        command = [
            sys.executable,
            "-c",
            _MAIN,
            "watch",
            "--json",
            "--observer",
            name,
            "--config",
            str(config),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        if self.process.stdout is not None:
            for line in self.process.stdout:
                told = json.loads(line)
                self.lines.append(Line(time.monotonic(), told["verdict"], told["reason"], told["command"]))

    def first(self, verdict: str, since: float) -> float | None:
        """Seconds from a moment until this verdict; None: not yet."""
        return next((x.at - since for x in self.lines if x.at > since and x.verdict == verdict), None)

    @property
    def command(self) -> str:
        """The first command that it printed; empty: none yet."""
        return next((x.command for x in self.lines if x.command), "")

    @property
    def newest(self) -> str:
        """The latest verdict."""
        return self.lines[-1].verdict if self.lines else ""


def main(arguments: Sequence[str]) -> int:
    """Measure; 1 when a round took longer than the goal."""
    parser = ArgumentParser(prog="python -m tests.bench.detection", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of each kind")
    rounds = parser.parse_args(arguments).rounds
    found = list(measure(("killed", "frozen"), rounds, tell))
    for kind in dict.fromkeys(run.kind for run in found):
        firsts, lasts = zip(*((run.first, run.last) for run in found if run.kind == kind), strict=True)
        tell(f"{kind}: first {_spread(firsts)}, last of {OBSERVERS} {_spread(lasts)}")
    return int(max(run.last for run in found) >= GOAL_SECONDS)


def measure(kinds: Sequence[str], rounds: int, tell: Callable[[str], None]) -> Iterator[DetectionRun]:
    """Lose the primary again and again.

    :param kinds: of "killed" and "frozen"
    :raises TimeoutError: heartbeats, or a verdict, did not come
    """
    with scene(tell) as (primary, standby, watchers):
        for kind in kinds:
            for _ in range(rounds):
                yield _round(primary, standby, watchers, kind, tell)


def _round(
    primary: LocalCluster,
    standby: LocalCluster,
    watchers: Sequence[Watcher],
    kind: str,
    tell: Callable[[str], None],
) -> DetectionRun:
    before = beats(standby)
    # Without heartbeats there is no LOST, only a HOLD: they must flow, and their rhythm must be known.
    until(lambda: beats(standby) >= before + 15, _PATIENCE, "heartbeats")
    until(lambda: all(w.newest == "UP" for w in watchers), _PATIENCE, "UP")
    pause(random.uniform(*_ANY_MOMENT), "any moment between two heartbeats")
    began = time.monotonic()
    (primary.kill if kind == "killed" else primary.freeze)()
    until(lambda: all(w.first("LOST", began) is not None for w in watchers), _PATIENCE, "LOST")
    times = sorted(w.first("LOST", began) or 0.0 for w in watchers)
    way = [(round(x.at - began, 1), x.verdict, x.reason) for x in watchers[0].lines if x.at > began]
    tell(f"    {kind}: LOST after {', '.join(f'{t:.1f}' for t in times)} s; the way: {way}")
    (primary.restart if kind == "killed" else primary.resume)()
    return DetectionRun(kind, round(times[0], 2), round(times[-1], 2))


@contextmanager
def scene(
    tell: Callable[[str], None], extra: Callable[[Path], str] = lambda _: ""
) -> Iterator[tuple[LocalCluster, LocalCluster, list[Watcher]]]:
    """Two clusters, a replicator and the observers.

    :param extra: more of the configuration, for the folder in which it lies
    """
    with ExitStack() as stack:
        primary, standby = (
            LocalCluster(ClusterSpec("primary", brokers=3)),
            LocalCluster(ClusterSpec("standby")),
        )
        for cluster in (primary, standby):
            stack.callback(cluster.stop)
        tell("starting two clusters, a replicator and three observers")
        start_together(primary, standby)
        admin = AdminClient({"bootstrap.servers": primary.bootstrap(), "log_level": 0})
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(30)
        folder = Path(tempfile.mkdtemp(prefix="drkit-detection-"))
        config = folder / "drkit.toml"
        config.write_text(
            f'[clusters.primary]\nbootstrap_servers = "{primary.bootstrap()}"\n'
            f'[clusters.standby]\nbootstrap_servers = "{standby.bootstrap()}"\n'
            '[[flows]]\nsource = "primary"\ntarget = "standby"\ntopics = ["orders"]\n'
            "replication_factor = 1\ntasks = 1\nbuckets = 2\n"
            f"[watch]\nobservers = {OBSERVERS}\n{extra(folder)}"
        )
        replicate = [sys.executable, "-c", _MAIN, "replicate", "--config", str(config)]
        with (folder / "replicate.log").open("wb") as log:
            stack.callback(_end, subprocess.Popen(replicate, stdout=log, stderr=log))
        watchers = [Watcher(config, f"o{n}") for n in range(1, OBSERVERS + 1)]
        for watcher in watchers:
            stack.callback(_end, watcher.process)
        tell(f"logs are in {folder}")
        yield primary, standby, watchers


def beats(standby: LocalCluster) -> int:
    """The number of heartbeats on the standby."""
    topic = "primary.heartbeats"
    consumer = Consumer({"bootstrap.servers": standby.bootstrap(), "group.id": "bench", "log_level": 0})
    try:
        if topic not in consumer.list_topics(timeout=10.0).topics:
            return 0
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10.0)[1])
    except KafkaException as error:
        if error.args[0].code() not in NOT_YET:
            raise
        return 0
    finally:
        consumer.close()


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(20.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f} s (median; {ordered[0]:.1f} to {ordered[-1]:.1f})"


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
