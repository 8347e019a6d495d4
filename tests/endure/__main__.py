"""``make endure``: a flow under churn; a line is fitted to each figure, and one that rises too fast fails."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
import re
from statistics import linear_regression
import subprocess
import sys
import tempfile
import time
from typing import Final
from urllib.request import urlopen

from drkit.config import ClusterSettings
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.kafka.clients import Message
from drkit.kafka.reading.log_reader import read_partitions
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.ports import PortReservation
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition
from tests.endure.churn import BASE, Churn

_FLOW: Final = """
[[flows]]
source = "a"
target = "b"
topics = ["{base}", "churn.*"]
tasks = 1
buckets = 2
epoch_seconds = 1
refresh_topics_interval_seconds = 1
checkpoint_interval_seconds = 1
sync_group_offsets_interval_seconds = 1
on_source_deleted = "mirror"
on_source_group_deleted = "mirror"
"""
_SAMPLE_SECONDS: Final = 10.0
_WARM: Final = 0.4
"""Share of the run before lines are fitted: heaps settle, and the first graces have to pass."""
BOUNDS: Final[Mapping[str, float]] = {
    "memory MB": 120.0,
    "threads": 60.0,
    "descriptors": 120.0,
    "metrics lines": 3000.0,
    "checkpoints": 1500.0,
    "state keys": 600.0,
    "map keys": 1500.0,
}
"""By how much each may rise in an hour; without any forgetting it is ten times as much."""


def main() -> int:
    """Run the scene; 1 when a figure rises too fast, or the flow has ended."""
    options = ArgumentParser(prog="python -m tests.endure", description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    minutes = options.parse_args().minutes
    with ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="endure-")))
        clusters = LocalCluster(ClusterSpec("source")), LocalCluster(ClusterSpec("target"))
        for cluster in clusters:
            open_.callback(cluster.stop)
        start_together(*clusters)
        churn = Churn(clusters[0].bootstrap())
        churn.start()
        open_.callback(churn.stop)
        driver, port = _driver(folder, clusters)
        open_.callback(_end, driver)
        samples = _samples(driver, port, clusters, minutes * 60)
        _say(f"{churn.topics} topics and {churn.groups} groups came and went")
        ended = driver.poll() is not None
    return _report(samples) or int(ended)


def _driver(folder: Path, clusters: tuple[LocalCluster, LocalCluster]) -> tuple[subprocess.Popen[bytes], int]:
    sides = zip("ab", clusters, strict=True)
    config, port = folder / "drkit.toml", PortReservation().reserve()
    tables = [f'[clusters.{name}]\nbootstrap_servers = "{side.bootstrap()}"' for name, side in sides]
    config.write_text("\n".join([*tables, _FLOW.format(base=BASE)]))
    command = [
        sys.executable, "-m", "tests.endure.hasty", "replicate", "--config", str(config),
        "--metrics-port", str(port),
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log), port


def _end(driver: subprocess.Popen[bytes]) -> None:
    driver.terminate()
    with suppress(subprocess.TimeoutExpired):
        driver.wait(30)
    driver.kill()


def _samples(
    driver: subprocess.Popen[bytes], port: int, clusters: tuple[LocalCluster, LocalCluster], seconds: float
) -> list[tuple[float, dict[str, float]]]:
    began, found = time.monotonic(), []
    target = ClusterSettings(alias="b", bootstrap_servers=clusters[1].bootstrap())
    while (at := time.monotonic() - began) < seconds and driver.poll() is None:
        if at > _WARM * seconds:
            found.append((at, _of_process(driver.pid, port) | _of_target(target)))
            _say(f"{at:6.0f} s  " + "  ".join(f"{k} {v:.0f}" for k, v in found[-1][1].items()))
        with suppress(subprocess.TimeoutExpired):
            driver.wait(_SAMPLE_SECONDS)
    return found


def _of_process(pid: int, port: int) -> dict[str, float]:
    proc = Path("/proc", str(pid))
    (kilobytes,) = re.findall(r"^Pss:\s+(\d+)", (proc / "smaps_rollup").read_text(), re.MULTILINE)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().count(b"\n")
    return {
        "memory MB": int(kilobytes) / 1024,
        "threads": len(list((proc / "task").iterdir())),
        "descriptors": len(list((proc / "fd").iterdir())),
        "metrics lines": lines,
    }


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

    def take(message: Message) -> None:
        key, value = message.key() or b"", message.value()
        if value:
            newest[key] = value
        else:
            newest.pop(key, None)

    read_partitions(target, {TopicPartition(topic, number): 0 for number in range(partitions)}, take)
    return newest


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _report(samples: list[tuple[float, dict[str, float]]]) -> int:
    failed = 0
    hours = [at / 3600 for at, _ in samples]
    for name, bound in BOUNDS.items():
        slope = linear_regression(hours, [values[name] for _, values in samples]).slope
        failed |= slope > bound
        _say(f"{name:14} {slope:+9.0f} an hour, at most {bound:+.0f}{'  RISES' if slope > bound else ''}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
