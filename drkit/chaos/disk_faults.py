"""Faults of disks and files: a full disk, an older disk, a spoiled endpoint file, an altered export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import resource
import shutil
from typing import Final

from drkit.chaos.history import STANDBY
from drkit.chaos.stage import ScenarioStage
from drkit.endpoint import Endpoint
from drkit.errors import Failed
from drkit.repoint.file import EndpointFile

_EXPORT_BYTES: Final = 2048
_NEWER_TERM: Final = 100
Applied = tuple[str, Callable[[], object] | None]
"""Evidence that the fault is in force, and what ends it; None: it lasted an instant."""


def fill_disks(stage: ScenarioStage, target: str) -> Applied:
    """Let every write of the brokers fail that makes a file longer, as on a full disk (setrlimit(2))."""
    cluster = stage.clusters[target]
    for broker in cluster.brokers:
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (1, hard))
    # Kafka ends a broker whose only log folder failed.
    stage.wait_for(lambda: not any(b.running for b in cluster.brokers), f"the end of {target}")

    def free() -> None:
        cluster.restart()

    return f"{target}: no process is left, its files cannot grow", free


def _saved(stage: ScenarioStage, target: str) -> Path:
    return stage.folder / f"saved-disk-{target}"


def save_disks(stage: ScenarioStage, target: str) -> Applied:
    """Keep a copy of a cluster's disks; its brokers are restarted for it."""
    cluster = stage.clusters[target]
    cluster.kill()
    for broker in cluster.brokers:
        shutil.copytree(broker.folder / "data", _saved(stage, target) / broker.folder.name)
    cluster.restart()
    return f"{len(cluster.brokers)} disks of {target} are saved", None


def age_disks(stage: ScenarioStage, target: str) -> Applied:
    """Start a cluster with the disks that were saved, as from a backup or a snapshot."""
    cluster = stage.clusters[target]
    cluster.kill()
    for broker in cluster.brokers:
        shutil.rmtree(broker.folder / "data")
        shutil.copytree(_saved(stage, target) / broker.folder.name, broker.folder / "data")
    cluster.restart()
    return f"{target} runs with {len(cluster.brokers)} older disks", lambda: None


def limit_orchestrator(stage: ScenarioStage, _target: str) -> Applied:
    """Let files that an orchestrator writes grow to a few bytes only, as on a full disk."""
    child = stage.waiting_command()
    _, hard = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (_EXPORT_BYTES, hard))
    return f"process {child.pid}: file size is limited to {_EXPORT_BYTES} bytes", lambda: None


def spoil_endpoint(stage: ScenarioStage, _target: str) -> Applied:
    """Let the endpoint file hold something else, so that clients cannot be repointed."""
    text = stage.endpoint_file.read_text(encoding="utf-8")
    stage.endpoint_file.write_text("not an endpoint\n", encoding="utf-8")
    return f"{stage.endpoint_file} holds something else", lambda: stage.endpoint_file.write_text(
        text, "utf-8"
    )


def overtake_endpoint(stage: ScenarioStage, _target: str) -> Applied:
    """Let the endpoint file have a newer term, as after a later run; it names the standby."""
    text = stage.endpoint_file.read_text(encoding="utf-8")
    newer = Endpoint(_NEWER_TERM, STANDBY, stage.clusters[STANDBY].cluster_id, stage.bootstrap(STANDBY))
    EndpointFile(stage.endpoint_file).tell(newer)
    return f"the endpoint has term {_NEWER_TERM}", lambda: stage.endpoint_file.write_text(text, "utf-8")


def alter_export(stage: ScenarioStage, _target: str) -> Applied:
    """Change one byte of an exported file."""
    files = [f for f in sorted(stage.export_folder.rglob("*")) if f.is_file() and f.name != "manifest.json"]
    if not files:
        raise Failed("no_exported_file", where=str(stage.export_folder))
    data = files[0].read_bytes()
    middle = len(data) // 2
    files[0].write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    return f"one byte of {files[0].name} differs", lambda: files[0].write_bytes(data)
