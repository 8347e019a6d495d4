"""Two clusters with clients at work on them: the part of a scenario's stage that a drill has, too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
import signal
import time
from typing import Any, ClassVar, Final, TypeVar

from drkit.chaos.history import PRIMARY, Acked, Event, Recorder, ScenarioHistory, read_events
from drkit.chaos.processes import MODULE, Child, ProcessParent
from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import DrkitError, Failed
from drkit.kafka.groups.asking import Answered
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import ask_once
from drkit.model import TopicPartition
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector

_STEADY_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 5.0
_BOOTSTRAP: Final = "bootstrap.servers"
_T = TypeVar("_T")
_Answers = dict[str, Answered[_T]]


@dataclass
class ClientStage(ABC):
    """Two clusters, clients that are processes, and the history of what they did.

    :param folder: of this run: endpoint file, logs, history
    :param seed: of the clients' schedule and of the groups' positions
    :param parent_module: the module that forks commands, replicators and clients
    """

    WHERE: ClassVar[str] = "chaos"
    """Names the stage in errors."""

    folder: Path
    seed: int = 0
    parent_module: str = MODULE
    clients: dict[str, Child] = field(default_factory=dict, kw_only=True)
    replicators: dict[str, Child] = field(default_factory=dict, kw_only=True)
    """By the flow that they copy."""
    topics: tuple[str, ...] = field(init=False)
    """The topics that clients write."""
    groups: tuple[str, ...] = field(init=False)
    """The groups whose positions are compared."""
    live_group: str = field(init=False)
    """The group that reads and commits all the time."""
    live_topic: str = field(init=False)
    """The topic that it reads."""
    is_source_lost: bool = field(default=False, init=False)
    """Whether the failover never reached the source: then its fence is pending at the end."""

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.history_file = self.folder / "history.jsonl"
        self.endpoint_file = self.folder / "endpoint.json"
        self.recorder = Recorder(self.history_file, "stage")
        self._events: list[Event] = []
        self._position = 0
        self.parent = ProcessParent(self.parent_module)

    # -- what is at work ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def flows(self) -> Mapping[str, FlowSettings]:
        """The flows, by the cluster from which they copy."""

    @abstractmethod
    def cluster(self, name: str) -> ClusterSettings:
        """Return a cluster's settings by a way that no fault cuts."""

    @abstractmethod
    def application(self, cluster: str) -> dict[str, Any]:
        """Return the properties of an application's client of a cluster, with ``bootstrap.servers``."""

    # -- clients --------------------------------------------------------------------

    def start_client(self, name: str, kind: str, **options: Any) -> None:
        """Start a client process; `options` are those of its `run`."""
        properties = {k: v for k, v in self.application(PRIMARY).items() if k != _BOOTSTRAP}
        own = {"seed": self.seed, "history": str(self.history_file), "properties": properties}
        client = {"kind": kind, "name": name, **own, **options}
        self.clients[name] = self.parent.start_client(client, self.folder / f"{name}.log")

    def stop_clients(self, *names: str) -> None:
        """Stop clients, by default all; one that does not end is killed."""
        children = [self.clients.pop(name) for name in names or tuple(self.clients) if name in self.clients]
        for child in children:
            child.signal(signal.SIGTERM)
        deadline = monotonic() + _STOP_SECONDS
        for child in children:
            child.end_before(deadline)

    # -- questions ----------------------------------------------------------------------------------

    def history(self) -> ScenarioHistory:
        """Return the history so far."""
        events, self._position = read_events(self.history_file, self._position)
        self._events += events
        return ScenarioHistory(tuple(self._events))

    def acked(self, by: str = "") -> int:
        """Return how many records were acknowledged so far, to all clients or to one."""
        return sum(not by or event.by == by for event in self.history().of(Acked))

    def commit(self, cluster: str, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group that has no members."""
        wanted = {tp: Committed(offset) for tp, offset in offsets.items()}
        codes = self._ask(cluster, group, lambda groups: groups.alter({group: wanted}))
        if codes != dict.fromkeys(offsets, 0):
            raise Failed("chaos_commit_refused", where=f"group {group}", evidence=str(codes))

    def committed(self, cluster: str, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        offsets = self._ask(cluster, group, lambda groups: groups.committed([group]))
        return {tp: committed.offset for tp, committed in offsets.items()}

    def has_members(self, cluster: str, group: str) -> bool:
        """Return whether a group has members."""
        return bool(self._ask(cluster, group, lambda groups: groups.describe([group])).members)

    def _ask(self, cluster: str, group: str, question: Callable[[Groups], Awaitable[_Answers[_T]]]) -> _T:
        """Return the answer of a group's coordinator.

        :raises DrkitError: there is none
        """
        settings = self.cluster(cluster)
        answers = ask_once(settings, self.WHERE, lambda raw: question(Groups(raw)), what="ask a coordinator")
        answer = answers[group]
        if answer.value is None:
            where = f"group {group} on {cluster}"
            raise Failed("chaos_no_coordinator", where=where, evidence=str(answer))
        return answer.value

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
        wanted = self.acked(by) + records
        self.wait_for(lambda: self.acked(by) >= wanted, f"{records} more acknowledged records", seconds)

    def wait_pair(self, settings: Settings, flow: FlowSettings) -> None:
        """Wait until the pair is PROTECTED in one direction: all topics copied and noted."""
        with closing(PairedCollector(settings, flow, groups=False)) as collector:

            def is_protected() -> bool:
                pair = collector.look().pair
                states = {t.topic: t.state for t in pair.topics} if pair is not None else {}
                return {states.get(topic) for topic in self.topics} == {PairState.PROTECTED}

            self.wait_for(is_protected, f"PROTECTED for {flow.name}")
