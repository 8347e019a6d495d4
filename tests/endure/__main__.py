"""``make endure``: a flow under churn; a line is fitted to each figure, and one that rises too fast fails.

Sampled are the replicator (its driver, JVM and workers), a standby replicator, an observer, and the topics
that drkit keeps on the target. The run ends after a number of epochs or minutes.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from operator import itemgetter
import os
from pathlib import Path
import re
import signal
from statistics import fmean, linear_regression
import subprocess
import sys
import tempfile
import threading
import time
from typing import Final
from urllib.request import urlopen

from drkit.config import ClusterSettings
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.kafka.reading.range_reader import RangeReader
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.ports import PortReservation
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition
from tests.endure.churn import BASE, Churn
from tests.endure.hasty import EPOCHS

_CLUSTER: Final = """
[clusters.{name}]
bootstrap_servers = "{servers}"
client = {{ "metadata.max.age.ms" = "20000" }}  # until then librdkafka keeps deleted topics
"""
_FLOW: Final = """
[[flows]]
source = "a"
target = "b"
topics = ["{base}", "churn.*"]
tasks = 1
buckets = 2
epoch_seconds = {epoch}
refresh_topics_interval_seconds = 1
checkpoint_interval_seconds = 1
sync_group_offsets_interval_seconds = 1
on_source_deleted = "mirror"
on_source_group_deleted = "mirror"
"""
_IDLE_JVM: Final = {"JAVA_TOOL_OPTIONS": "-Xmn16m"}
"""A small young generation: a large one takes half an hour of a standby to fill, and rises until then.
At work it would be too small: what survives fills the old generation, which rises until it is collected."""
_SAMPLE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5
_WARM: Final = 0.4
"""Share of the run before lines are fitted: heaps settle, and the first graces have to pass."""
_PROCESSES: Final = ("driver", "jvm", "workers", "standby", "watch")
BOUNDS: Final[Mapping[str, float]] = {
    "driver MB": 40.0,
    "jvm MB": 60.0,
    "workers MB": 40.0,
    "standby MB": 40.0,
    "watch MB": 20.0,
    **{f"{name} threads": 10.0 for name in _PROCESSES},
    **{f"{name} descriptors": 20.0 for name in _PROCESSES},
    "metrics lines": 600.0,
    "checkpoints": 300.0,
    "state keys": 200.0,
    "map keys": 300.0,
}
"""By how much each may rise in an hour, beyond twice the error of its line."""

Sample = tuple[float, dict[str, float]]


def main() -> int:
    """Run the scene; 1 when a figure rises too fast."""
    options = ArgumentParser(prog="python -m tests.endure", description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0, help="end after so many minutes")
    options.add_argument("--epochs", type=int, help="end after so many epochs instead")
    options.add_argument("--epoch-seconds", type=float, default=1.0)
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # processes and brokers end, too
    with ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="endure-")))
        clusters = LocalCluster(ClusterSpec("source")), LocalCluster(ClusterSpec("target"))
        for cluster in clusters:
            open_.callback(cluster.stop)
        start_together(*clusters)
        churn = Churn(clusters[0].bootstrap())
        churn.start()
        open_.callback(churn.stop)
        scene = Scene(folder, clusters, given.epoch_seconds)
        open_.callback(scene.end)
        samples = scene.samples(given.minutes * 60, given.epochs)
        _say(f"{scene.epochs()} epochs; {churn.topics} topics and {churn.groups} groups came and went")
    return _report(samples)


class Scene:
    """A replicator, a second one that waits for its lease, and an observer; each a process."""

    def __init__(self, folder: Path, clusters: tuple[LocalCluster, LocalCluster], epoch: float) -> None:
        self._pause = threading.Event()
        self._config, self._counted = folder / "drkit.toml", folder / "epochs"
        sides = zip("ab", clusters, strict=True)
        tables = [_CLUSTER.format(name=name, servers=side.bootstrap()) for name, side in sides]
        self._config.write_text("\n".join([*tables, _FLOW.format(base=BASE, epoch=epoch)]))
        self._target = ClusterSettings(alias="b", bootstrap_servers=clusters[1].bootstrap())
        self._port = PortReservation().reserve()
        self._driver = self._start("driver", "replicate", "--metrics-port", str(self._port))
        while self._driver.poll() is None and not self.epochs():
            self._pause.wait(_LOOK_SECONDS)  # the first replicator takes the lease
        self._standby = self._start("standby", "replicate", "--standby")
        self._watch = self._start("watch", "watch")

    def has_ended(self) -> bool:
        return any(process.poll() is not None for process in (self._driver, self._standby, self._watch))

    def ends(self) -> str:
        """Return the last lines of each process."""
        logs = (self._config.with_name(f"{name}.log") for name in ("driver", "standby", "watch"))
        return "\n".join(f"{log.name}: {log.read_text()[-600:]}" for log in logs)

    def end(self) -> None:
        for process in (self._watch, self._standby, self._driver):
            _end(process)

    def samples(self, seconds: float, epochs: int | None) -> list[Sample]:
        """Return elapsed seconds with the figures of that moment, once the scene is warm."""
        began, found = time.monotonic(), list[Sample]()
        while not self.has_ended():
            at, done = time.monotonic() - began, self.epochs()
            share = done / epochs if epochs else at / seconds
            if share > _WARM:
                found.append((at, self._figures()))
                _say(
                    f"{at:6.0f} s  {done} epochs  "
                    + "  ".join(f"{k} {v:.0f}" for k, v in found[-1][1].items())
                )
            if share >= 1:
                return found
            self._pause.wait(_SAMPLE_SECONDS)
        raise SystemExit(f"a process has ended: {self.ends()}")

    def _figures(self) -> dict[str, float]:
        jvm, workers = _below(self._driver.pid)
        roles = ([self._driver.pid], jvm, workers, _all_below(self._standby.pid), [self._watch.pid])
        figures: dict[str, float] = {}
        for name, pids in zip(_PROCESSES, roles, strict=True):
            figures |= {f"{name} {what}": value for what, value in _of_processes(pids).items()}
        return figures | {"metrics lines": self._metrics().count("\n")} | _of_target(self._target)

    def _metrics(self) -> str:
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
            return str(answer.read(), "utf-8")

    def epochs(self) -> int:
        """Return the number of epochs that have begun."""
        return self._counted.stat().st_size if self._counted.exists() else 0

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.endure.hasty", *words, "--config", str(self._config)]
        with self._config.with_name(f"{name}.log").open("wb") as log:
            given = {"driver": {EPOCHS: str(self._counted)}, "standby": _IDLE_JVM}.get(name, {})
            return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | given)


def _end(driver: subprocess.Popen[bytes]) -> None:
    driver.terminate()
    with suppress(subprocess.TimeoutExpired):
        driver.wait(30)
    driver.kill()


def _below(pid: int) -> tuple[list[int], list[int]]:
    """The JVM below a driver, and the Python workers below that."""
    parents = _parents()
    jvm = [child for child, parent in parents.items() if parent == pid and _command(child) == "java"]
    return jvm, [child for machine in jvm for child in _descendants(machine, parents)]


def _all_below(pid: int) -> list[int]:
    return [pid, *_descendants(pid, _parents())]


def _descendants(pid: int, parents: Mapping[int, int]) -> list[int]:
    children = [child for child, parent in parents.items() if parent == pid]
    return children + [below for child in children for below in _descendants(child, parents)]


def _parents() -> dict[int, int]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            status = (folder / "status").read_text()
            found[int(folder.name)] = int(re.findall(r"^PPid:\s+(\d+)", status, re.MULTILINE)[0])
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path("/proc", str(pid), "comm").read_text().strip()
    return ""


def _of_processes(pids: Iterable[int]) -> dict[str, float]:
    """Memory (proportional set size), threads and descriptors, summed; a process that has ended has none."""
    kilobytes = threads = descriptors = 0
    for pid in pids:
        proc = Path("/proc", str(pid))
        with suppress(OSError):
            pss = re.findall(r"^Pss:\s+(\d+)", (proc / "smaps_rollup").read_text(), re.MULTILINE)
            threads += len(list((proc / "task").iterdir()))
            descriptors += len(list((proc / "fd").iterdir()))
            kilobytes += int(pss[0])
    return {"MB": kilobytes / 1024, "threads": threads, "descriptors": descriptors}


def _of_target(target: ClusterSettings) -> dict[str, float]:
    """The keys that compaction cannot remove; an empty value says that its key is gone."""
    topics = {
        "checkpoints": ("a.checkpoints.internal", 1),
        "state keys": (state_topic("a"), 1),
        "map keys": (offset_map_topic("a"), 2),
    }
    return {name: len(_living(target, *topic)) for name, topic in topics.items()}


def _living(target: ClusterSettings, topic: str, partitions: int) -> dict[bytes, bytes]:
    newest: dict[bytes, bytes] = {}

    with closing(RangeReader(target)) as reader:
        for at in (TopicPartition(topic, number) for number in range(partitions)):
            for message in reader.messages(at, 0, reader.log_end(at)):
                key, value = message.key() or b"", message.value()
                if value:
                    newest[key] = value
                else:
                    newest.pop(key, None)
    return newest


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _report(samples: list[Sample]) -> int:
    failed = 0
    for name, bound in BOUNDS.items():
        line = [(at / 3600, values[name]) for at, values in samples]
        slope, error = _slope(*zip(*(peaks(line) if name.endswith(" threads") else line), strict=True))
        rises = slope - 2 * error > bound
        failed |= rises
        _say(
            f"{name:20} {slope:+9.1f} ± {error:.1f} an hour, at most {bound:+.0f}{'  RISES' if rises else ''}"
        )
    return int(failed)


def peaks(line: Sequence[tuple[float, float]], windows: int = 10) -> list[tuple[float, float]]:
    """Return the highest value of each part of a run: where and how much.

    Threads of a JVM's pools end when they are idle, so fewer run while other work slows the epochs down. One
    that never ends raises the peaks.
    """
    size = max(1, len(line) // windows)
    return [max(line[i : i + size], key=itemgetter(1)) for i in range(0, len(line), size)]


def _slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The slope of the least-squares line and its standard error."""
    slope, intercept = linear_regression(x, y)
    residuals = sum((b - slope * a - intercept) ** 2 for a, b in zip(x, y, strict=True))
    spread = sum((a - fmean(x)) ** 2 for a in x)
    return slope, (residuals / max(1, len(x) - 2) / spread) ** 0.5


if __name__ == "__main__":
    sys.exit(main())
