"""The faults of a scenario. Each takes a target, verifies its own effect, and records when it is in force.

A fault that cannot verify its effect raises: what was not in force has exercised nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
import resource
import shutil
import signal
import socket
import threading
from typing import Any, Final, NamedTuple

from drkit.chaos.history import PRIMARY, STANDBY, FaultBegan, FaultEnded
from drkit.chaos.stage import (
    DRKIT,
    DRKIT_ON_CLUSTER,
    IDLE_GROUPS,
    LINKED,
    LIVE_GROUP,
    ORDERS,
    PARTITIONS,
    ScenarioStage,
    change_rights,
)
from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.endpoint import Endpoint
from drkit.errors import Failed, NotAuthorized, Usage
from drkit.kafka.access.acls import list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_partitions, create_topics
from drkit.local.link import Direction, Link
from drkit.local.process import wait_stopped
from drkit.repoint.file import EndpointFile

END: Final = "end"
_LINKS: Final = tuple(name.lower() for name in LINKED)
_VERIFY_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 2.0
_DUTY_SECONDS: Final = 0.1
_SLEEP_SECONDS: Final = 60.0
_EXPORT_BYTES: Final = 2048
_NEWER_TERM: Final = 100
Applied = tuple[str, Callable[[], object] | None]
"""Evidence that the fault is in force, and what ends it, or None if it lasted an instant."""


def begin_fault(stage: ScenarioStage, name: str, **options: Any) -> None:
    """Apply a fault, such as ``kill primary``; ``end kill primary`` ends it.

    :raises Usage: there is no such fault, or it is not in force
    :raises Failed: its effect cannot be verified
    """
    stage.tell("fault", name)
    verb, _, target = name.partition(" ")
    if verb == END:
        _end_fault(stage, target)
        return
    fault = _FAULTS.get(verb)
    if fault is None or target not in fault.targets:
        raise Usage("fault_unknown", where="chaos", evidence=f"faults: {', '.join(fault_names())}", name=name)
    evidence, heal = fault.apply(stage, target, **options)
    if heal is not None:
        stage.faults[name] = heal
    stage.recorder.record(FaultBegan(name, evidence, lasts=heal is not None))


def _end_fault(stage: ScenarioStage, name: str) -> None:
    if name not in stage.faults:
        in_force = f"in force: {', '.join(stage.faults) or 'none'}"
        raise Usage("fault_not_in_force", where="chaos", evidence=in_force, name=name)
    stage.faults.pop(name)()
    stage.recorder.record(FaultEnded(name))


def end_faults(stage: ScenarioStage) -> None:
    """End every fault that is in force, the newest first."""
    for name in reversed(tuple(stage.faults)):
        _end_fault(stage, name)


class _Fault(NamedTuple):
    targets: tuple[str, ...]
    apply: Callable[..., Applied]


def fault_names() -> list[str]:
    """Return the names of all faults."""
    return [f"{verb} {target}" for verb, fault in _FAULTS.items() for target in fault.targets]


# -- processes --------------------------------------------------------------------------------------------


def _kill(stage: ScenarioStage, target: str) -> Applied:
    if target == "orchestrator":
        child = stage.waiting_command()
        return f"process {child.pid}: code {child.kill().code}", None
    if target == "replicator":
        [(flow, child)] = stage.replicators.items()
        stage.stop_replicator(flow)
        return f"replicator of {flow}, process {child.pid}, has ended", lambda: stage.start_replicator(flow)
    name, _, broker = target.partition(" ")
    cluster = stage.clusters[name]
    for each in [cluster.broker(int(broker))] if broker else cluster.brokers:
        each.kill()
        if each.running:
            raise Failed("broker_still_running", where=each.name)
    return f"{target}: no process is left", cluster.restart


def _suspend(stage: ScenarioStage, _target: str) -> Applied:
    child = stage.waiting_command()
    child.slept += _SLEEP_SECONDS
    return f"process {child.pid}, clocks {_SLEEP_SECONDS:.0f} s ahead", None


def _freeze(stage: ScenarioStage, target: str) -> Applied:
    if target in stage.clusters:
        cluster = stage.clusters[target]
        cluster.freeze()
        return f"every thread of {len(cluster.brokers)} broker processes is stopped", cluster.resume
    [child] = stage.replicators.values()
    child.signal(signal.SIGSTOP)
    if not wait_stopped(child.pid, monotonic() + _VERIFY_SECONDS):
        raise Failed("replicator_not_stopped", where=f"process {child.pid}")
    return f"process {child.pid} is stopped", lambda: child.signal(signal.SIGCONT)


def _duty(stage: ScenarioStage, target: str) -> Applied:
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

    def end() -> None:
        over.set()
        thread.join()

    return f"{target} stops and continues every {_DUTY_SECONDS * 1000:.0f} ms", end


# -- disks and files ----------------------------------------------------------------------------------------


def _limit_files(pid: int, limit: int) -> None:
    """Let every write of a process fail that makes a file longer, as on a full disk (setrlimit(2))."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))


def _fill(stage: ScenarioStage, target: str) -> Applied:
    cluster = stage.clusters[target]
    for broker in cluster.brokers:
        _limit_files(broker.pid, 1)
    # Kafka ends a broker whose only log folder failed.
    stage.wait_for(lambda: not any(b.running for b in cluster.brokers), f"the end of {target}")
    return f"{target}: no process is left, its files cannot grow", cluster.restart


def _limit(stage: ScenarioStage, _target: str) -> Applied:
    child = stage.waiting_command()
    _limit_files(child.pid, _EXPORT_BYTES)
    return f"process {child.pid}: file size is limited to {_EXPORT_BYTES} bytes", lambda: None


def _copy_disks(stage: ScenarioStage, target: str, *, is_saved: bool) -> Applied:
    """Save a cluster's disks, or start it with the saved ones, as from a backup or a snapshot."""
    cluster = stage.clusters[target]
    cluster.kill()
    for broker in cluster.brokers:
        disk, copy = broker.folder / "data", stage.folder / f"saved-disk-{target}" / broker.folder.name
        if is_saved:
            shutil.rmtree(disk)
        shutil.copytree(*(copy, disk) if is_saved else (disk, copy))
    cluster.restart()
    number = len(cluster.brokers)
    if is_saved:
        return f"{target} runs with {number} older disks", lambda: None
    return f"{number} disks of {target} are saved", None


def _spoil(stage: ScenarioStage, _target: str) -> Applied:
    """Let the endpoint file hold something else, so that clients cannot be repointed."""
    file = stage.endpoint_file
    put_back = partial(file.write_bytes, file.read_bytes())
    file.write_text("not an endpoint\n", encoding="utf-8")
    return f"{file} holds something else", put_back


def _overtake(stage: ScenarioStage, _target: str) -> Applied:
    """Let the endpoint file have a newer term, as after a later run; it names the standby."""
    put_back = partial(stage.endpoint_file.write_bytes, stage.endpoint_file.read_bytes())
    newer = Endpoint(_NEWER_TERM, STANDBY, stage.clusters[STANDBY].cluster_id, stage.bootstrap(STANDBY))
    EndpointFile(stage.endpoint_file).tell(newer)
    return f"the endpoint has term {_NEWER_TERM}", put_back


def _alter(stage: ScenarioStage, _target: str) -> Applied:
    """Change one byte of an exported file."""
    files = (f for f in sorted(stage.export_folder.rglob("*")) if f.is_file() and f.name != "manifest.json")
    if (file := next(files, None)) is None:
        raise Failed("no_exported_file", where=str(stage.export_folder))
    data = bytearray(file.read_bytes())
    put_back = partial(file.write_bytes, bytes(data))
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return f"one byte of {file.name} differs", put_back


# -- links ------------------------------------------------------------------------------------------------


def _link(stage: ScenarioStage, target: str) -> Link:
    return stage.clusters[PRIMARY].link(target.upper())


def _cut(stage: ScenarioStage, target: str) -> Applied:
    link = _link(stage, target)
    address = stage.bootstrap(PRIMARY, target.upper()).split(",")[0]
    host, _, port = address.rpartition(":")
    link.cut()
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        return f"{address}: {error}", link.restore
    raise Failed("link_still_connects", where=address)


def _slow(stage: ScenarioStage, target: str, delay_ms: float = 50.0) -> Applied:
    link = _link(stage, target)
    link.slow(delay_ms=delay_ms)
    return f"every byte is delayed by {link.delay_ms:.0f} ms", link.restore


def _hold_bytes(apply: Callable[[Link], object], effect: str, stage: ScenarioStage, target: str) -> Applied:
    link = _link(stage, target)
    apply(link)
    passed = link.passed(Direction.TO_CLIENT)
    stage.wait_for(lambda: link.connections > 0, f"a connection on {target}", _VERIFY_SECONDS)
    if link.passed(Direction.TO_CLIENT) != passed:
        raise Failed("link_still_passes", where=target)
    return f"bytes of {link.connections} connections are {effect}", link.restore


# -- topics and groups ------------------------------------------------------------------------------------


def _grow(stage: ScenarioStage, target: str) -> Applied:
    cluster = Cluster.connect(stage.cluster(target))
    for failure in create_partitions(cluster, {ORDERS: PARTITIONS + 1}).values():
        raise failure
    return f"{ORDERS} has {PARTITIONS + 1} partitions on {target}", None


def _create(stage: ScenarioStage, target: str) -> Applied:
    for failure in create_topics(Cluster.connect(stage.cluster(target)), [TopicPlan("fresh", 1)]).values():
        raise failure
    return f"topic fresh on {target}", None


def _join(stage: ScenarioStage, target: str) -> Applied:
    """Let a member join a group on a cluster: ``standby shop``, or ``standby shop static``."""
    cluster, group, *static = target.split(" ")
    name = f"member-{cluster}-{group}"
    more = {"bootstrap": stage.bootstrap(cluster), **({"group_instance_id": name} if static else {})}
    stage.start_client(name, "member", group=group, topics=[ORDERS], **more)
    stage.wait_for(lambda: stage.has_members(cluster, group), f"a member of {group} on {cluster}")
    return f"group {group} has a member on {cluster}", lambda: stage.stop_clients(name)


def _advance(stage: ScenarioStage, group: str) -> Applied:
    """Commit later positions of a group without members on the primary."""
    later = {tp: offset + 1 for tp, offset in stage.committed(PRIMARY, group).items()}
    stage.commit(PRIMARY, group, later)
    return f"group {group} has committed {sorted(later.values())}", None


def _open(stage: ScenarioStage, target: str) -> Applied:
    """Leave a transaction open on the primary."""
    name, bootstrap = f"{target}-transaction", stage.bootstrap(PRIMARY)
    before = len(stage.history().events)
    stage.start_client(name, "hanging transaction", cluster=PRIMARY, bootstrap=bootstrap, topics=[ORDERS])
    stage.wait_for(lambda: any(e.by == name for e in stage.history().events[before:]), "an open transaction")
    return "a transaction is open", lambda: stage.stop_clients(name)


def _write(stage: ScenarioStage, target: str) -> Applied:
    """Write a record of a foreign producer into a passive copy."""
    error, _ = stage.send(STANDBY, ORDERS, f"{target} record")
    if error:
        raise Failed("foreign_record_not_accepted", where=ORDERS, evidence=error)
    return f"a {target} record is in {ORDERS}-0 on the standby", None


def _revoke(stage: ScenarioStage, target: str) -> Applied:
    """Take drkit's right on a cluster as a whole."""
    admin, drkit = stage.cluster(target), stage.cluster(target, DRKIT)
    change_rights(admin, "delete_acls", DRKIT_ON_CLUSTER)
    stage.wait_for(lambda: not _may_list_acls(drkit), f"a refusal by {target}", _VERIFY_SECONDS)

    def restore() -> None:
        change_rights(admin, "create_acls", DRKIT_ON_CLUSTER)
        stage.wait_for(lambda: _may_list_acls(drkit), f"rights on {target}", _VERIFY_SECONDS)

    return f"{target} refuses drkit to list ACLs", restore


def _may_list_acls(drkit: ClusterSettings) -> bool:
    try:
        list_acls(drkit)
    except NotAuthorized:
        return False
    return True


_EITHER: Final = (PRIMARY, STANDBY)
_MEMBERS: Final = tuple(
    f"{c} {g}{s}" for c in _EITHER for g in (LIVE_GROUP, "billing") for s in ("", " static")
)
_FAULTS: Final[dict[str, _Fault]] = {
    "kill": _Fault((*_EITHER, "standby 0", "standby 1", "standby 2", "replicator", "orchestrator"), _kill),
    "freeze": _Fault((*_EITHER, "replicator"), _freeze),
    "suspend": _Fault(("orchestrator",), _suspend),
    "duty": _Fault(_EITHER, _duty),
    "cut": _Fault(_LINKS, _cut),
    "stall": _Fault(_LINKS, partial(_hold_bytes, Link.stall, "held back")),
    "half-open": _Fault(_LINKS, partial(_hold_bytes, Link.half_open, "swallowed")),
    "one-way": _Fault(
        _LINKS,
        partial(_hold_bytes, partial(Link.stall, direction=Direction.TO_CLIENT), "held back to clients"),
    ),
    "slow": _Fault(_LINKS, _slow),
    "fill": _Fault(_EITHER, _fill),
    "limit": _Fault(("orchestrator",), _limit),
    "spoil": _Fault(("endpoint",), _spoil),
    "overtake": _Fault(("endpoint",), _overtake),
    "alter": _Fault(("export",), _alter),
    "save": _Fault(_EITHER, partial(_copy_disks, is_saved=False)),
    "age": _Fault(_EITHER, partial(_copy_disks, is_saved=True)),
    "grow": _Fault((PRIMARY,), _grow),
    "create": _Fault((PRIMARY,), _create),
    "join": _Fault(_MEMBERS, _join),
    "advance": _Fault(tuple(IDLE_GROUPS), _advance),
    "open": _Fault(("hanging",), _open),
    "revoke": _Fault(_EITHER, _revoke),
    "write": _Fault(("foreign",), _write),
}
