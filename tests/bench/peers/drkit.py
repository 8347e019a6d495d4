"""drkit as its user starts it: ``drkit replicate``, every setting at its default but the task number."""

from __future__ import annotations

from dataclasses import dataclass
import sys
from typing import Final

from tests.bench.peers.replicator import Command, Flow

CONFIG: Final = """\
[clusters.source]
bootstrap_servers = "{source}"
[clusters.target]
bootstrap_servers = "{target}"
[[flows]]
source = "source"
target = "target"
topics = [{topics}]
tasks = 2
"""


@dataclass(frozen=True, slots=True)
class Drkit:
    """drkit of the environment that runs the benchmark."""

    name: str = "drkit"

    def prepare(self, flow: Flow) -> Command:
        """Write ``drkit.toml`` into the flow's folder."""
        path = flow.folder / "drkit.toml"
        path.write_text(_config(flow))
        return Command(
            [sys.executable, "-m", "drkit", "replicate", "--config", str(path.resolve())],
            env={"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        )


def _config(flow: Flow) -> str:
    topics = ", ".join(f'"{topic}"' for topic in flow.topic.split(","))
    text = CONFIG.format(source=flow.source, target=flow.target, topics=topics) + flow.settings
    return text if flow.epoch_seconds is None else f"{text}epoch_seconds = {flow.epoch_seconds}\n"
