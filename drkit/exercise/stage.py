"""The stage of an exercise: two clusters, clients that are processes, and the history of what they did."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
import signal
import time
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError

from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import DrkitError, Failed
from drkit.exercise.events import (
    HISTORY,
    PRIMARY,
    STANDBY,
    Acked,
    ClientStopped,
    Event,
    LookFailed,
    Recorder,
    read_events,
)
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.processes import MODULE, Child, ProcessParent
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import Producer, deliver
from drkit.kafka.groups.requests import Committed, Groups, group_members
from drkit.kafka.raw import ask_once
from drkit.kafka.topics import list_offsets
from drkit.model import TopicPartition
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector

PARTITIONS: Final = 2
"""The number of partitions of each topic."""
_STEADY_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2
_BEHIND_MARKERS: Final = 30
"""Records acknowledged after the markers of transactions, to all clients."""
_STOP_SECONDS: Final = 5.0
_SEND_SECONDS: Final = 15.0
_BOOTSTRAP: Final = "bootstrap.servers"


@dataclass
class ClientStage(ABC):
    """Two clusters, clients that are processes, and the history of what they did.

    :param folder: of this run: endpoint file, logs, history
    :param seed: of the clients' schedule and of the groups' positions
    :param parent_module: the module that forks commands, replicators and clients
    """

    WHERE: ClassVar[str]
    """Names the stage in errors."""

    folder: Path
    seed: int = 0
    parent_module: str = MODULE
    clients: dict[str, Child] = field(default_factory=dict, kw_only=True)
    replicators: dict[str, Child] = field(default_factory=dict, kw_only=True)
    """By the cluster from which they copy."""
    settings: Settings = field(init=False)
    flows: Mapping[str, FlowSettings] = field(init=False)
    """The flows, by the cluster from which they copy."""
    topics: tuple[str, ...] = field(init=False)
    """The topics that clients write."""
    groups: dict[str, str] = field(init=False)
    """The groups whose positions are compared, with the topic that each reads."""
    live_group: str = field(init=False)
    """The group that reads and commits all the time."""
    is_source_lost: bool = field(default=False, init=False)
    """True if the failover never reached the source: then its fence is pending at the end."""

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.history_file = self.folder / HISTORY
        self.endpoint_file = self.folder / "endpoint.json"
        self.export_folder = self.folder / "export"
        self.recorder = Recorder(self.history_file, "stage")
        self._events: list[Event] = []
        self._position = 0
        self.parent = ProcessParent(self.parent_module)

    @abstractmethod
    def cluster(self, name: str) -> ClusterSettings:
        """Return a cluster's settings by a way that no fault cuts."""

    @abstractmethod
    def application(self, cluster: str) -> dict[str, Any]:
        """Return the properties of an application's client of a cluster, with ``bootstrap.servers``."""

    def start_client(self, name: str, kind: str, **options: Any) -> None:
        """Start a client process; `options` are those of its kind."""
        properties = {k: v for k, v in self.application(PRIMARY).items() if k != _BOOTSTRAP}
        own = {"seed": self.seed, "history": str(self.history_file), "properties": properties}
        client = {"kind": kind, "name": name, **own, **options}
        self.clients[name] = self.parent.start((kind,), "client", log=self.folder / f"{name}.log", **client)

    def stop_clients(self, *names: str) -> None:
        """Stop clients, by default all; one that does not end is killed."""
        children = {n: self.clients.pop(n) for n in names or tuple(self.clients) if n in self.clients}
        for name, child in children.items():
            self.note_ended(f"client {name}", child)
            child.signal(signal.SIGTERM)
        deadline = monotonic() + _STOP_SECONDS
        for name, child in children.items():
            was_killed = not child.end_before(deadline)
            self.recorder.record(ClientStopped(name, child.words[0], was_killed))

    def note_ended(self, name: str, child: Child) -> None:
        """Record a process that failed before it was stopped. A replicator with nothing to copy ends well."""
        if child.has_ended() and child.ended().code != 0:
            self.recorder.record(LookFailed(name, "it ended before it was stopped"))

    def send(self, cluster: str, topic: str, value: str) -> tuple[KafkaError | None, int]:
        """Write a record as an application; return its error, or None, and its offset.

        The value is its key, too: a compacted topic accepts no record without one.
        """
        producer = Producer({**self.application(cluster), "log_level": 0})
        data = value.encode()
        delivery = deliver(producer, topic, [(0, data, data, None)], _SEND_SECONDS)
        return next(iter(delivery.failed), None), delivery.first.get(0, 0)

    def history(self) -> ScenarioHistory:
        """Return the history so far."""
        events, self._position = read_events(self.history_file, self._position)
        self._events += events
        return ScenarioHistory(tuple(self._events))

    def acked(self, by: str = "") -> int:
        """Return how many records were acknowledged so far, to all clients or to one."""
        return sum(not by or event.by == by for event in self.history().of(Acked))

    def commit(self, cluster: str, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group that has no members; its coordinator may be a new one."""
        new = {group: {tp: Committed(offset) for tp, offset in offsets.items()}}
        settings = self.cluster(cluster)

        def is_committed() -> bool:
            answer = ask_once(settings, self.WHERE, lambda raw: Groups(raw).alter(new), what="commit offsets")
            if answer[group].value != dict.fromkeys(offsets, 0):
                raise Failed("chaos_commit_refused", where=f"group {group}", evidence=str(answer[group]))
            return True

        self.wait_for(is_committed, f"committed offsets of the group {group}")

    def committed(self, cluster: str, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group. Raises DrkitError if its coordinator does not answer."""
        settings, names = self.cluster(cluster), [group]
        answer = ask_once(settings, self.WHERE, lambda raw: Groups(raw).offsets(names), what="read offsets")
        return {tp: committed.offset for tp, committed in answer[group].items()}

    def has_members(self, cluster: str, group: str) -> bool:
        """Return whether a group has members. Raises DrkitError as :meth:`committed`."""
        return bool(group_members(self.cluster(cluster), [group])[group])

    def wait_for(self, is_true: Callable[[], bool], what: str, seconds: float = _STEADY_SECONDS) -> None:
        """Wait until a condition is true; a cluster that does not answer meanwhile is asked again.

        :raises Failed: not in time
        """
        deadline, last = monotonic() + seconds, ""
        while True:
            try:
                if is_true():
                    return
            except DrkitError as error:
                last = error.in_short
            if monotonic() > deadline:
                raise Failed(
                    "chaos_waited_in_vain", where=self.WHERE, evidence=last, seconds=seconds, what=what
                )
            time.sleep(_LOOK_SECONDS)

    def wait_acked(self, records: int, by: str = "", seconds: float = _STEADY_SECONDS) -> None:
        """Wait until some more records were acknowledged, to all clients or to one."""
        enough = self.acked(by) + records
        self.wait_for(lambda: self.acked(by) >= enough, f"{records} more acknowledged records", seconds)

    def wait_protected(self, source: str, *, whole: bool = False) -> None:
        """Wait until the pair is PROTECTED for the flow of a source: all topics copied and noted.

        :param whole: nothing is left to copy
        """
        flow = self.flows[source]
        with closing(PairedCollector(self.settings, flow, groups=False)) as collector:

            def is_protected() -> bool:
                topics = {t.topic: t for t in collector.read_pair().topics if t.topic in self.topics}
                is_whole = not whole or {t.records for t in topics.values()} == {0}
                states = {t.state for t in topics.values()}
                return topics.keys() == {*self.topics} and states == {PairState.PROTECTED} and is_whole

            self.wait_for(is_protected, f"PROTECTED for {flow.name}")

    def commit_behind_markers(self, group: str, topic: str, number: int) -> None:
        """Commit positions of a group without members, behind transactions: there the copy's offsets differ.

        :param number: of records between the positions and the end, less than three
        """
        tps = [TopicPartition(topic, p) for p in range(PARTITIONS)]

        def have_markers() -> bool:
            ended = {e.tp for e in self.history().of(Acked) if e.transaction}
            return ended.issuperset(tps)

        self.wait_for(have_markers, f"transactions in each partition of {topic}")
        self.wait_acked(_BEHIND_MARKERS)
        ends = list_offsets(Cluster.connect(self.cluster(PRIMARY)), tps, "latest")
        self.commit(PRIMARY, group, {tp: end - number for tp, end in ends.items()})

    def wait_steady(self) -> None:
        """Wait until the pair is PROTECTED, and the standby has all positions of the groups."""
        self.wait_protected(PRIMARY)

        def are_synced() -> bool:
            return all(len(self.committed(STANDBY, group)) == PARTITIONS for group in self.groups)

        self.wait_for(are_synced, "positions of all groups on the standby")
