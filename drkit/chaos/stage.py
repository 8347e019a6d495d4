"""A local pair for one scenario: two clusters, a link for each party, clients at work, a flow that copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
import signal
import time
from typing import Any, Final, Self

from drkit.chaos.configuration import configuration
from drkit.chaos.history import PRIMARY, STANDBY, Acked, Event, Recorder, ScenarioHistory, read_events
from drkit.chaos.processes import MODULE, Child, ProcessParent
from drkit.chaos.rights import APPLICATION, DRKIT, grant_rights
from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings, Settings, load
from drkit.endpoint import Endpoint
from drkit.errors import DrkitError, Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.one_shot import ask_once
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.model import TopicPartition
from drkit.repoint.file import EndpointFile
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector

OPERATOR, REPLICATION, APPLICATIONS = LINKED = ("OPERATOR", "REPLICATION", "APPLICATIONS")
"""The links of the primary: of drkit's commands, of the replicator and of the clients."""
FORTH, BACK = f"{PRIMARY}->{STANDBY}", f"{STANDBY}->{PRIMARY}"
ORDERS, PAYMENTS = TOPICS = ("orders", "payments")
PARTITIONS: Final = 2
LIVE_GROUP: Final = "shop"
IDLE_GROUPS: Final = {"billing": ORDERS, "audit": PAYMENTS}
"""Groups without members, and the topic of which each has read a part."""
GROUPS: Final = (LIVE_GROUP, *IDLE_GROUPS)
_STEADY_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 5.0
_FIRST_RECORDS: Final = 30
"""Records acknowledged before the groups commit and the copy begins."""


@dataclass
class ScenarioStage:
    """The pair and everything at work on it; use it in a ``with``.

    :param folder: of this run: configuration, endpoint file, journal, logs, history, exports
    :param seed: of the clients' schedule and of the groups' positions
    :param parent_module: the module that forks commands, replicators and clients
    :param brokers: brokers of each cluster
    :param authorizer: clients authenticate, and both clusters enforce ACLs
    :param rpo_seconds: the loss that a failover accepts by itself
    """

    folder: Path
    seed: int = 0
    parent_module: str = MODULE
    brokers: int = 1
    authorizer: bool = False
    rpo_seconds: float = 5
    clients: dict[str, Child] = field(default_factory=dict)
    replicators: dict[str, Child] = field(default_factory=dict)
    """By the flow that they copy."""
    orchestrator: Child | None = None
    """The command that waits at an entry of its journal, while faults happen there."""

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.history_file = self.folder / "history.jsonl"
        self.endpoint_file = self.folder / "endpoint.json"
        self.export_folder = self.folder / "export"
        self.recorder = Recorder(self.history_file, "stage")
        self._events: list[Event] = []
        self._position = 0
        spec = ClusterSpec(
            STANDBY, self.brokers, sasl=self.authorizer, mechanisms=("PLAIN",), authorizer=self.authorizer
        )
        linked = replace(spec, name=PRIMARY, listeners=("CLIENT", *LINKED), linked=LINKED)
        self.clusters = {s.name: LocalCluster(s, folder=self.folder / s.name) for s in (linked, spec)}
        self.parent = ProcessParent(self.parent_module)

    def __enter__(self) -> Self:
        self.parent.__enter__()  # it loads modules while the brokers start
        try:
            start_together(*self.clusters.values())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.parent.__exit__()
        finally:
            self.close()

    def close(self) -> None:
        """End the brokers; the folder stays."""
        for cluster in self.clusters.values():
            cluster.stop()
        self.recorder.close()

    # -- addresses and settings ---------------------------------------------------------------------

    def bootstrap(self, cluster: str, role: str = "CLIENT") -> str:
        """Return ``bootstrap.servers`` of a cluster for a party; only the primary has links."""
        return self.clusters[cluster].bootstrap(role if cluster == PRIMARY else "CLIENT")

    def client(self, user: str = ADMIN) -> dict[str, str]:
        """Return the client properties of a user, the same on both clusters; empty without an authorizer."""
        return self.clusters[PRIMARY].client_properties(user, "PLAIN")

    def cluster(self, name: str, user: str = ADMIN) -> ClusterSettings:
        """Return a cluster's settings by a way that no fault cuts."""
        return ClusterSettings(alias=name, bootstrap_servers=self.bootstrap(name), client=self.client(user))

    def config(self, user: str = OPERATOR) -> Path:
        """Return the configuration file of a party: the operator, another machine, the replicator."""
        file = self.folder / ("drkit.toml" if user == OPERATOR else f"{user.lower()}.toml")
        if not file.exists():
            link = user if user in LINKED else OPERATOR
            text = configuration(
                primary=self.bootstrap(PRIMARY, link),
                standby=self.bootstrap(STANDBY),
                journal=self.folder / f"journal-{user.lower()}",
                endpoint=self.endpoint_file,
                rpo_seconds=self.rpo_seconds,
                client=self.client(DRKIT),
                canary=self.client(APPLICATION),
            )
            file.write_text(text, encoding="utf-8")
        return file

    @property
    def settings(self) -> Settings:
        """The operator's configuration."""
        return load(self.config())

    def flow(self, name: str = FORTH) -> FlowSettings:
        """Return a flow of the configuration."""
        return self.settings.one_flow(name)

    @property
    def cluster_ids(self) -> dict[str, str]:
        """Cluster id → name."""
        return {cluster.cluster_id: name for name, cluster in self.clusters.items()}

    # -- before the method --------------------------------------------------------------------------

    def prepare(self) -> None:
        """Bring the pair to its steady state: clients at work, all copied, all groups synced, PROTECTED.

        :raises DrkitError: it is not steady in time
        """
        if self.authorizer:
            for name, topics in ((PRIMARY, TOPICS), (STANDBY, ())):
                grant_rights(self.cluster(name), topics)
        for plan in (TopicPlan(topic, PARTITIONS, configs={"retention.ms": "-1"}) for topic in TOPICS):
            for failure in create_topics(Cluster.connect(self.cluster(PRIMARY)), [plan]).values():
                raise failure
        EndpointFile(self.endpoint_file).tell(
            Endpoint(0, PRIMARY, self.clusters[PRIMARY].cluster_id, self.bootstrap(PRIMARY, APPLICATIONS))
        )
        bootstrap = self.bootstrap(PRIMARY, APPLICATIONS)
        direct = {"cluster": PRIMARY, "bootstrap": bootstrap}
        following = {"endpoint": str(self.endpoint_file), "clusters": self.cluster_ids}
        self.start_client("writer", "writer", **direct, topics=TOPICS)
        self.start_client("transactions", "transactional writer", **direct, topics=[PAYMENTS])
        self.wait_acked(_FIRST_RECORDS)
        for number, (group, topic) in enumerate(IDLE_GROUPS.items()):
            offset = 3 + (self.seed + number) % 5
            self.commit(PRIMARY, group, {TopicPartition(topic, p): offset for p in range(PARTITIONS)})
        self.start_client("shop", "following consumer", **following, group=LIVE_GROUP, topics=[ORDERS])
        self.start_client("till", "following writer", **following, topics=[ORDERS])
        self.start_replicator(FORTH)
        self.wait_protected(FORTH)
        self.wait_for(self._groups_synced, "positions of all groups on the standby")

    def _groups_synced(self) -> bool:
        """Return whether the standby has a position of every group in each of its partitions."""
        return all(len(self.committed(STANDBY, group)) == PARTITIONS for group in GROUPS)

    # -- clients and replicators --------------------------------------------------------------------

    def start_client(self, name: str, kind: str, **options: Any) -> None:
        """Start a client process; `options` are those of its `run`."""
        own = {"seed": self.seed, "history": str(self.history_file), "properties": self.client(APPLICATION)}
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

    def start_replicator(self, flow: str) -> None:
        """Start the replicator of a flow."""
        log = self.folder / f"replicator-{flow.partition('->')[0]}.log"
        self.replicators[flow] = self.parent.start_replicator(self.config(REPLICATION), flow, log)

    def stop_replicator(self, flow: str) -> None:
        """Send SIGKILL to the replicator of a flow."""
        self.replicators.pop(flow).kill()

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
        answers = ask_once(
            self.cluster(cluster), "chaos", lambda raw: Groups(raw).alter({group: wanted}), what="commit"
        )
        if answers[group].value != dict.fromkeys(offsets, 0):
            raise Failed("a commit was refused", where=f"group {group}", evidence=str(answers[group]))

    def committed(self, cluster: str, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        answers = ask_once(
            self.cluster(cluster), "chaos", lambda raw: Groups(raw).committed([group]), what="read offsets"
        )
        return {tp: c.offset for tp, c in (answers[group].value or {}).items()}

    def has_members(self, cluster: str, group: str) -> bool:
        """Return whether a group has members; fail if its coordinator does not say."""
        answers = ask_once(
            self.cluster(cluster), "chaos", lambda raw: Groups(raw).describe([group]), what="describe a group"
        )
        described = answers[group].value
        if described is None:
            raise Failed("the coordinator of a group does not answer", where=f"group {group} on {cluster}")
        return bool(described.members)

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
                raise Failed(f"waited {seconds:.0f} s in vain for {what}", where="chaos", evidence=last)
            time.sleep(_LOOK_SECONDS)

    def wait_acked(self, records: int, by: str = "", seconds: float = _STEADY_SECONDS) -> None:
        """Wait until some more records were acknowledged, to all clients or to one."""
        wanted = self.acked(by) + records
        self.wait_for(lambda: self.acked(by) >= wanted, f"{records} more acknowledged records", seconds)

    def wait_protected(self, flow: str) -> None:
        """Wait until the pair is PROTECTED in one direction: all topics copied and noted."""
        with closing(PairedCollector(self.settings, self.flow(flow), groups=False)) as collector:

            def is_protected() -> bool:
                pair = collector.look().pair
                states = {t.topic: t.state for t in pair.topics} if pair is not None else {}
                return {states.get(topic) for topic in TOPICS} == {PairState.PROTECTED}

            self.wait_for(is_protected, f"PROTECTED for {flow}")
