"""The faults of a scenario. Each takes a target, verifies its own effect, and records when it is in force.

A fault that cannot verify its effect raises: what was not in force has exercised nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
import resource
import shutil
import signal
import socket
import threading
from typing import Any, Final

from drkit.chaos.stage import DRKIT, DRKIT_ON_CLUSTER, IDLE_GROUPS, ORDERS, ScenarioStage
from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.endpoint import Endpoint
from drkit.errors import Failed, NotAuthorized, Usage, raise_first
from drkit.exercise.events import PRIMARY, STANDBY, FaultBegan, FaultEnded
from drkit.exercise.stage import PARTITIONS
from drkit.kafka.access.acls import create_acls, delete_acls, list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.requests import describe_cluster
from drkit.kafka.topics import create_partitions
from drkit.local.process import wait_stopped

END: Final = "end"
_EITHER: Final = (PRIMARY, STANDBY)
_VERIFY_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 2.0
_REQUESTS: Final = 20
_DUTY_SECONDS: Final = 0.1
_EXPORT_BYTES: Final = 2048
_NEWER_TERM: Final = 100
_Apply = Callable[..., str | Iterator[str]]
"""Returns the evidence that a fault took effect; of one that lasts, yields it and ends it when continued."""
FAULTS: Final[dict[str, tuple[_Apply, str, str]]] = {}
"""All faults by their names, each with its target, and with what it holds while it lasts."""


def _fault(verb: str, *targets: str, holds: str = "") -> Callable[[_Apply], _Apply]:
    """Register a fault under its verb, for each target; by default it holds its target."""

    def register(apply: _Apply) -> _Apply:
        FAULTS.update({f"{verb} {target}": (apply, target, holds or target) for target in targets})
        return apply

    return register


def begin_fault(stage: ScenarioStage, name: str, **options: Any) -> None:
    """Apply a fault, such as ``kill primary``; ``end kill primary`` ends it.

    :raises Usage: it is not in force, or another one holds its target
    :raises Failed: its effect cannot be verified
    """
    stage.tell("fault", name)
    if name.startswith(f"{END} "):
        _end_fault(stage, name.removeprefix(f"{END} "))
        return
    apply, target, held = FAULTS[name]
    # The end of one would end both.
    if others := [other for other in stage.faults if FAULTS[other][2] == held]:
        raise Usage("fault_on_same_target", where="chaos", evidence=f"in force: {others[0]}", target=held)
    applied = apply(stage, target, **options)
    if isinstance(applied, str):
        stage.recorder.record(FaultBegan(name, applied))
    else:
        evidence, stage.faults[name] = next(applied), applied
        stage.recorder.record(FaultBegan(name, evidence, lasts=True))


def _end_fault(stage: ScenarioStage, name: str) -> None:
    if name not in stage.faults:
        in_force = f"in force: {', '.join(stage.faults) or 'none'}"
        raise Usage("fault_not_in_force", where="chaos", evidence=in_force, name=name)
    next(stage.faults.pop(name), None)
    stage.recorder.record(FaultEnded(name))


def end_faults(stage: ScenarioStage) -> None:
    """End every fault that is in force, the newest first."""
    for name in reversed(tuple(stage.faults)):
        _end_fault(stage, name)


@_fault("kill", "orchestrator")
def _kill_orchestrator(stage: ScenarioStage, _target: str) -> str:
    child = stage.waiting_command()
    return f"process {child.pid}: code {child.kill().code}"


@_fault("kill", "replicator")
def _kill_replicator(stage: ScenarioStage, _target: str) -> Iterator[str]:
    source, child = stage.kill_replicator()
    yield f"replicator of {source}, process {child.pid}, has ended"
    stage.start_replicator(source)


@_fault("kill", *_EITHER)
@_fault("kill", "standby 1", holds=STANDBY)
def _kill_brokers(stage: ScenarioStage, target: str) -> Iterator[str]:
    name, _, broker = target.partition(" ")
    cluster = stage.clusters[name]
    for each in [cluster.broker(int(broker))] if broker else cluster.brokers:
        each.kill()
        if each.running:
            raise Failed("broker_still_running", where=each.name)
    yield f"{target}: no process is left"
    cluster.restart()


@_fault("freeze", PRIMARY)
def _freeze_brokers(stage: ScenarioStage, target: str) -> Iterator[str]:
    cluster = stage.clusters[target]
    cluster.freeze()
    yield f"every thread of {len(cluster.brokers)} broker processes is stopped"
    cluster.resume()


@_fault("freeze", "replicator")
def _freeze_replicator(stage: ScenarioStage, _target: str) -> Iterator[str]:
    [child] = stage.replicators.values()
    child.signal(signal.SIGSTOP)
    if not wait_stopped(child.pid, monotonic() + _VERIFY_SECONDS):
        raise Failed("replicator_not_stopped", where=f"process {child.pid}")
    yield f"process {child.pid} is stopped"
    child.signal(signal.SIGCONT)


@_fault("duty", PRIMARY)
def _stop_in_turns(stage: ScenarioStage, target: str) -> Iterator[str]:
    """Stop and continue the brokers in turns: they answer, and are slow."""
    cluster, over, turns = stage.clusters[target], threading.Event(), [0]

    def alternate() -> None:
        while not over.wait(_DUTY_SECONDS):
            cluster.freeze()
            over.wait(_DUTY_SECONDS)
            cluster.resume()
            turns[0] += 1

    thread = threading.Thread(target=alternate, daemon=True)
    thread.start()
    stage.wait_for(lambda: turns[0] > 1, f"duty cycles of {target}", _VERIFY_SECONDS)
    yield f"{target} stops and continues every {_DUTY_SECONDS * 1000:.0f} ms"
    over.set()
    thread.join()


def _limit_files(pid: int, limit: int) -> None:
    """Let every write of a process fail that makes a file longer, as on a full disk (setrlimit(2))."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))


@_fault("fill", *_EITHER)
def _fill(stage: ScenarioStage, target: str) -> Iterator[str]:
    cluster = stage.clusters[target]
    for broker in cluster.brokers:
        _limit_files(broker.pid, 1)
    # Kafka ends a broker whose only log folder failed.
    stage.wait_for(lambda: not any(b.running for b in cluster.brokers), f"the end of {target}")
    yield f"{target}: no process is left, its files cannot grow"
    cluster.restart()


@_fault("limit", "orchestrator")
def _limit(stage: ScenarioStage, _target: str) -> Iterator[str]:
    child = stage.waiting_command()
    _limit_files(child.pid, _EXPORT_BYTES)
    yield f"process {child.pid}: file size is limited to {_EXPORT_BYTES} bytes"


def _copy_disks(stage: ScenarioStage, target: str, *, is_saved: bool) -> Iterator[str]:
    """Save the disks of a killed cluster, or give it the saved ones, as from a backup; then start it."""
    if (kill := f"kill {target}") not in stage.faults:
        raise Usage("fault_not_in_force", where="chaos", name=kill)
    cluster = stage.clusters[target]
    for broker in cluster.brokers:
        disk, copy = broker.folder / "data", stage.folder / f"saved-disk-{target}" / broker.folder.name
        if is_saved:
            shutil.rmtree(disk)
        shutil.copytree(*(copy, disk) if is_saved else (disk, copy))
    _end_fault(stage, kill)
    yield f"{len(cluster.brokers)} disks of {target} are {'older' if is_saved else 'saved'}"


_fault("save", PRIMARY, holds="copy of the disk")(partial(_copy_disks, is_saved=False))
_fault("age", PRIMARY, holds="disk")(partial(_copy_disks, is_saved=True))


def _replace(file: Path, data: bytes, evidence: str) -> Iterator[str]:
    before = file.read_bytes()
    file.write_bytes(data)
    yield evidence
    file.write_bytes(before)


@_fault("spoil", "endpoint")
def _spoil(stage: ScenarioStage, _target: str) -> Iterator[str]:
    file = stage.endpoint_file
    return _replace(file, b"not an endpoint\n", f"{file} holds something else")


@_fault("overtake", "endpoint")
def _overtake(stage: ScenarioStage, _target: str) -> Iterator[str]:
    newer = Endpoint(_NEWER_TERM, STANDBY, stage.clusters[STANDBY].cluster_id, stage.bootstrap(STANDBY))
    return _replace(stage.endpoint_file, newer.to_json().encode(), f"the endpoint has term {_NEWER_TERM}")


@_fault("alter", "export")
def _alter(stage: ScenarioStage, _target: str) -> Iterator[str]:
    """Change one byte of an exported file."""
    files = (f for f in sorted(stage.export_folder.rglob("*")) if f.is_file() and f.name != "manifest.json")
    if (file := next(files, None)) is None:
        raise Failed("no_exported_file", where=str(stage.export_folder))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    return _replace(file, bytes(data), f"one byte of {file.name} differs")


@_fault("cut", "operator", "replication")
def _cut(stage: ScenarioStage, target: str) -> Iterator[str]:
    link, bootstrap = stage.clusters[PRIMARY].link(target.upper()), stage.bootstrap(PRIMARY, target.upper())
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    link.cut()
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        yield f"{host}:{port}: {error}"
        link.restore()
    else:
        raise Failed("link_still_connects", where=f"{host}:{port}")


@_fault("slow", "operator")
def _slow(stage: ScenarioStage, target: str, delay_ms: float = 50.0) -> Iterator[str]:
    link, bootstrap = stage.clusters[PRIMARY].link(target.upper()), stage.bootstrap(PRIMARY, target.upper())
    settings = ClusterSettings(alias=target, bootstrap_servers=bootstrap, client=stage.client())
    before = ask_once(settings, stage.WHERE, _quickest_ms, what="measure the link")
    link.slow(delay_ms=delay_ms)
    after = ask_once(settings, stage.WHERE, _quickest_ms, what="measure the link")
    evidence = f"a request took {before:.1f} ms, and now {after:.1f} ms"
    if after - before < 1.5 * delay_ms:  # 2, less noise; a delay of one direction is 1
        raise Failed("link_not_slow", where=target, evidence=evidence)
    yield f"every byte is delayed by {delay_ms:g} ms each way: {evidence}"
    link.restore()


async def _quickest_ms(cluster: RawCluster) -> float:
    """Return the time of the quickest request of several: on a busy machine, the others measure its load."""
    times = [monotonic()]
    for _ in range(_REQUESTS):
        await describe_cluster(cluster)
        times.append(monotonic())
    return min(after - before for before, after in pairwise(times)) * 1000


@_fault("grow", PRIMARY)
def _grow(stage: ScenarioStage, target: str) -> str:
    cluster = Cluster.connect(stage.cluster(target))
    raise_first(create_partitions(cluster, {ORDERS: PARTITIONS + 1}))
    return f"{ORDERS} has {PARTITIONS + 1} partitions on {target}"


@_fault("join", "primary billing", "standby billing")
def _join(stage: ScenarioStage, target: str) -> Iterator[str]:
    """Let a member join a group on a cluster."""
    cluster, group = target.split(" ")
    name = f"member-{cluster}-{group}"
    stage.start_client(name, "member", group=group, topics=[ORDERS], bootstrap=stage.bootstrap(cluster))
    stage.wait_for(lambda: stage.has_members(cluster, group), f"a member of {group} on {cluster}")
    yield f"group {group} has a member on {cluster}"
    stage.stop_clients(name)


@_fault("advance", *IDLE_GROUPS)
def _advance(stage: ScenarioStage, group: str) -> str:
    later = {tp: offset + 1 for tp, offset in stage.committed(PRIMARY, group).items()}
    stage.commit(PRIMARY, group, later)
    return f"group {group} has committed {sorted(later.values())}"


@_fault("open", "hanging")
def _open(stage: ScenarioStage, target: str) -> Iterator[str]:
    """Leave a transaction open on the primary."""
    name, bootstrap = f"{target}-transaction", stage.bootstrap(PRIMARY)
    stage.start_client(name, "hanging transaction", cluster=PRIMARY, bootstrap=bootstrap, topics=[ORDERS])
    stage.wait_for(lambda: stage.acked(name) > 0, "an open transaction")
    yield "a transaction is open"
    stage.stop_clients(name)


@_fault("revoke", *_EITHER)
def _revoke(stage: ScenarioStage, target: str) -> Iterator[str]:
    """Take drkit's right on a cluster as a whole."""
    admin, drkit = stage.cluster(target), stage.cluster(target, DRKIT)
    delete_acls(admin, [DRKIT_ON_CLUSTER])
    stage.wait_for(lambda: not _may_list_acls(drkit), f"a refusal by {target}", _VERIFY_SECONDS)
    yield f"{target} refuses drkit to list ACLs"
    create_acls(admin, [DRKIT_ON_CLUSTER])
    stage.wait_for(lambda: _may_list_acls(drkit), f"rights on {target}", _VERIFY_SECONDS)


def _may_list_acls(drkit: ClusterSettings) -> bool:
    try:
        list_acls(drkit)
    except NotAuthorized:
        return False
    return True
