"""The stage of a scenario: two clusters, clients that are processes, a flow that copies, a history."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
import json
from pathlib import Path
import signal
import time
from typing import Any, ClassVar, Final, Literal, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from drkit.chaos.history import PRIMARY, STANDBY, Acked, Event, Recorder, ScenarioHistory, read_events
from drkit.chaos.processes import MODULE, Child, ProcessParent
from drkit.chaos.verdict import ScenarioVerdict
from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings, Settings, load
from drkit.endpoint import Endpoint
from drkit.errors import DrkitError, Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import Producer, deliver
from drkit.kafka.groups.requests import Committed, Groups, group_members
from drkit.kafka.raw import ask_once
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.link import Link
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.model import TopicPartition
from drkit.repoint.file import EndpointFile
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector

OPERATOR, REPLICATION, APPLICATIONS = LINKED = ("OPERATOR", "REPLICATION", "APPLICATIONS")
"""The links of the primary: of drkit's commands, of the replicator and of the clients."""
DRKIT, APPLICATION = "drkit", "app"
"""Users of a pair with an authorizer."""
ORDERS, PAYMENTS = TOPICS = ("orders", "payments")
PARTITIONS: Final = 2
LIVE_GROUP: Final = "shop"
IDLE_GROUPS: Final = {"billing": ORDERS, "audit": PAYMENTS}
"""Groups without members, and the topic of which each has read a part."""
HISTORY: Final = "history.jsonl"
_FIRST_RECORDS: Final = 30
"""Records acknowledged before the groups commit."""
_STEADY_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 5.0
_SEND_SECONDS: Final = 15.0
_BOOTSTRAP: Final = "bootstrap.servers"
_FLOW: Final = {"topics": TOPICS, "buckets": 2, "heartbeats_interval_seconds": 0.5}
_DETECTION: Final = {
    "probe_interval_seconds": 0.4,
    "probe_timeout_seconds": 1.0,
    "confirm_seconds": 2.0,
    "phi_pause_seconds": 1.0,
    "phi_min_deviation_seconds": 0.3,
}
Tell = Callable[[str, str], None]
"""Receives progress: its kind, and a text."""


@dataclass
class ClientStage(ABC):
    """Two clusters, clients that are processes, and the history of what they did; a drill has one, too.

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
    """By the cluster from which they copy."""
    settings: Settings = field(init=False)
    flows: Mapping[str, FlowSettings] = field(init=False)
    """The flows, by the cluster from which they copy."""
    topics: tuple[str, ...] = field(init=False)
    """The topics that clients write."""
    groups: tuple[str, ...] = field(init=False)
    """The groups whose positions are compared."""
    live_group: str = field(init=False)
    """The group that reads and commits all the time."""
    live_topic: str = field(init=False)
    """The topic that it reads."""
    is_source_lost: bool = field(default=False, init=False)
    """True if the failover never reached the source: then its fence is pending at the end."""

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.history_file = self.folder / HISTORY
        self.endpoint_file = self.folder / "endpoint.json"
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
        children = [self.clients.pop(name) for name in names or tuple(self.clients) if name in self.clients]
        for child in children:
            child.signal(signal.SIGTERM)
        deadline = monotonic() + _STOP_SECONDS
        for child in children:
            child.end_before(deadline)

    def send(self, cluster: str, topic: str, value: str) -> tuple[str, int]:
        """Write a record as an application; return the name of its error, or "", and its offset.

        The value is its key, too: a compacted topic accepts no record without one.
        """
        producer = Producer({**self.application(cluster), "log_level": 0})
        data = value.encode()
        delivery = deliver(producer, topic, [(0, data, data, None)], _SEND_SECONDS)
        return "".join(error.name() for error in delivery.failed), delivery.first.get(0, 0)

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
        new = {group: {tp: Committed(offset) for tp, offset in offsets.items()}}
        settings = self.cluster(cluster)
        answer = ask_once(settings, self.WHERE, lambda raw: Groups(raw).alter(new), what="commit offsets")
        if answer[group].value != dict.fromkeys(offsets, 0):
            raise Failed("chaos_commit_refused", where=f"group {group}", evidence=str(answer[group]))

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

    def wait_protected(self, source: str) -> None:
        """Wait until the pair is PROTECTED for the flow of a source: all topics copied and noted."""
        flow = self.flows[source]
        with closing(PairedCollector(self.settings, flow, groups=False)) as collector:

            def is_protected() -> bool:
                pair = collector.look().pair
                states = {t.topic: t.state for t in pair.topics} if pair is not None else {}
                return {states.get(topic) for topic in self.topics} == {PairState.PROTECTED}

            self.wait_for(is_protected, f"PROTECTED for {flow.name}")

    def wait_steady(self) -> None:
        """Wait until the pair is PROTECTED, and the standby has all positions of the groups."""
        self.wait_protected(PRIMARY)

        def are_synced() -> bool:
            return all(len(self.committed(STANDBY, group)) == PARTITIONS for group in self.groups)

        self.wait_for(are_synced, "positions of all groups on the standby")


@dataclass
class ScenarioStage(ClientStage):
    """A local pair with a link for each party, and everything at work on it; use it in a ``with``.

    :param brokers: brokers of each cluster
    :param authorizer: clients authenticate, and both clusters enforce ACLs
    :param rpo_seconds: the loss that a failover accepts by itself
    """

    tell: Tell = field(default=lambda _kind, _text: None, kw_only=True)
    brokers: int = 1
    authorizer: bool = False
    rpo_seconds: float = 5
    orchestrator: Child | None = None
    """The command that waits at an entry of its journal, while faults happen there."""
    faults: dict[str, Iterator[str]] = field(default_factory=dict, init=False)
    """Each fault in force; it ends when it is continued."""
    verdict: ScenarioVerdict | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.topics, self.groups = TOPICS, (LIVE_GROUP, *IDLE_GROUPS)
        self.live_group, self.live_topic = LIVE_GROUP, ORDERS
        self.export_folder = self.folder / "export"
        spec = ClusterSpec(
            STANDBY, self.brokers, sasl=self.authorizer, mechanisms=("PLAIN",), authorizer=self.authorizer
        )
        linked = replace(spec, name=PRIMARY, listeners=("CLIENT", *LINKED), linked=LINKED)
        self.clusters = {
            s.name: LocalCluster(s, folder=self.folder / s.name, progress=partial(self.tell, "local"))
            for s in (linked, spec)
        }

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.recorder.close)
            for cluster in self.clusters.values():
                stack.callback(cluster.stop)
            stack.enter_context(self.parent)  # it loads modules while the brokers start
            start_together(*self.clusters.values())
            self.settings = load(self.config())
            self.flows = dict(zip(self.clusters, self.settings.flows, strict=True))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def bootstrap(self, cluster: str, role: str = "CLIENT") -> str:
        """Return ``bootstrap.servers`` of a cluster for a party; only the primary has links."""
        return self.clusters[cluster].bootstrap(role if cluster == PRIMARY else "CLIENT")

    def link(self, party: str) -> Link:
        """Return the primary's link of a party, such as ``operator``."""
        return self.clusters[PRIMARY].link(party.upper())

    def client(self, user: str = ADMIN) -> dict[str, str]:
        """Return the client properties of a user, the same on both clusters; empty without an authorizer."""
        return self.clusters[PRIMARY].client_properties(user, "PLAIN")

    def application(self, cluster: str) -> dict[str, Any]:
        """Return the properties of an application on a cluster."""
        return {_BOOTSTRAP: self.bootstrap(cluster), **self.client(APPLICATION)}

    def cluster(self, name: str, user: str = ADMIN) -> ClusterSettings:
        """Return the settings of a cluster for a user."""
        return ClusterSettings(alias=name, bootstrap_servers=self.bootstrap(name), client=self.client(user))

    def config(self, user: str = OPERATOR) -> Path:
        """Return the configuration file of a party: the operator, another machine, the replicator."""
        file = self.folder / ("drkit.toml" if user == OPERATOR else f"{user.lower()}.toml")
        if not file.exists():
            primary = self.bootstrap(PRIMARY, user if user in LINKED else OPERATOR)
            journal = str(self.folder / f"journal-{user.lower()}")
            limits = {"rpo_seconds": self.rpo_seconds, "drain_seconds": 20.0, "verify_seconds": 0.5}
            tables: tuple[tuple[str, Mapping[str, Any]], ...] = (
                ("[clusters.primary]", {"bootstrap_servers": primary}),
                ("[clusters.primary.client]", self.client(DRKIT)),
                ("[clusters.standby]", {"bootstrap_servers": self.bootstrap(STANDBY)}),
                ("[clusters.standby.client]", self.client(DRKIT)),
                ("[[flows]]", {"source": PRIMARY, "target": STANDBY, **_FLOW}),
                ("[[flows]]", {"source": STANDBY, "target": PRIMARY, **_FLOW}),
                ("[failover]", {"journal_folder": journal, **limits}),
                ("[[failover.repoint]]", {"kind": "file", "path": str(self.endpoint_file)}),
                ("[failover.fence]", {"freeze_seconds": 5.0, "transaction_wait_seconds": 2.0}),
                ("[failover.fence.canary]", self.client(APPLICATION)),
                ("[detection]", _DETECTION),
            )
            file.write_text("\n".join(_toml_table(*table) for table in tables), encoding="utf-8")
        return file

    def prepare(self) -> None:
        """Bring the pair to its steady state: clients at work, all copied, all groups synced, PROTECTED.

        :raises DrkitError: it is not steady in time
        """
        if self.authorizer:
            for name, topics in ((PRIMARY, TOPICS), (STANDBY, ())):
                grant_rights(self.cluster(name), topics)
        plans = [TopicPlan(topic, PARTITIONS, configs={"retention.ms": "-1"}) for topic in TOPICS]
        for failure in create_topics(Cluster.connect(self.cluster(PRIMARY)), plans).values():
            raise failure
        self.start_replicator(PRIMARY)
        bootstrap = self.bootstrap(PRIMARY, APPLICATIONS)
        ids = {cluster.cluster_id: name for name, cluster in self.clusters.items()}
        EndpointFile(self.endpoint_file).tell(
            Endpoint(0, PRIMARY, self.clusters[PRIMARY].cluster_id, bootstrap)
        )
        direct = {"cluster": PRIMARY, "bootstrap": bootstrap}
        following = {"endpoint": str(self.endpoint_file), "clusters": ids, "topics": [ORDERS]}
        self.start_client("writer", "writer", **direct, topics=TOPICS)
        self.start_client("transactions", "transactional writer", **direct, topics=[PAYMENTS])
        self.start_client("shop", "following consumer", **following, group=LIVE_GROUP)
        self.start_client("till", "following writer", **following)
        self.wait_acked(_FIRST_RECORDS, "writer")
        for number, (group, topic) in enumerate(IDLE_GROUPS.items()):
            offset = 3 + (self.seed + number) % 5
            self.commit(PRIMARY, group, {TopicPartition(topic, p): offset for p in range(PARTITIONS)})
        self.wait_steady()

    def start_replicator(self, source: str) -> None:
        """Start the replicator of the flow from a cluster."""
        settings, log = load(self.config(REPLICATION)), self.folder / f"replicator-{source}.log"
        self.replicators[source] = self.parent.start_replicator(settings, self.flows[source], log)

    def waiting_command(self) -> Child:
        """Return the command that waits at an entry of its journal. Raises Failed if no command waits."""
        if self.orchestrator is None:
            raise Failed("no_orchestrator_running", where=self.WHERE)
        return self.orchestrator


_Right = tuple[Any, ...]


def _allow(
    user: str, resource: ResourceType, name: str = "*", operation: AclOperation = AclOperation.ALL
) -> _Right:
    """Return the fields of an ACL; without a name on all resources of the kind."""
    pattern = ResourcePatternType.LITERAL
    return resource, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW


DRKIT_ON_CLUSTER: Final = _allow(DRKIT, ResourceType.BROKER, "kafka-cluster")
"""The ACL of drkit on a cluster as a whole: to change ACLs, to end transactions of others."""


def change_rights(
    admin: ClusterSettings, verb: Literal["create_acls", "delete_acls"], *rights: _Right
) -> None:
    """Create or delete ACLs, given by their fields. Raises DrkitError: the cluster refuses."""
    cluster, kind = Cluster.connect(admin), AclBinding if verb == "create_acls" else AclBindingFilter
    for changed in getattr(cluster.admin, verb)([kind(*fields) for fields in rights]).values():
        cluster.wait(changed, "change ACLs")


def grant_rights(admin: ClusterSettings, topics: Sequence[str]) -> None:
    """Give drkit every right on a cluster, and applications those on topics and all groups."""
    kinds = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    rights = [_allow(user, kind) for user in (DRKIT, APPLICATION) for kind in kinds]
    rights += [_allow(DRKIT, ResourceType.TOPIC), DRKIT_ON_CLUSTER]
    for operation in (AclOperation.READ, AclOperation.WRITE):
        rights += [_allow(APPLICATION, ResourceType.TOPIC, topic, operation) for topic in topics]
    change_rights(admin, "create_acls", *rights)


def _toml_table(title: str, values: Mapping[str, Any]) -> str:
    """Return a table of TOML, which writes strings, numbers and lists as JSON does."""
    lines = (f"{json.dumps(k)} = {json.dumps(v, ensure_ascii=False)}\n" for k, v in values.items())
    return "".join((f"{title}\n", *lines))
