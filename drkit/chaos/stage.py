"""A local pair for one scenario: two clusters, a link for each party, clients at work, a flow that copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from drkit.chaos.client_stage import ClientStage
from drkit.chaos.history import PRIMARY, STANDBY
from drkit.chaos.processes import Child
from drkit.chaos.rights import APPLICATION, DRKIT, grant_rights
from drkit.config import ClusterSettings, FlowSettings, Settings, load
from drkit.endpoint import Endpoint
from drkit.errors import Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.jars import Progress
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.model import TopicPartition
from drkit.repoint.file import EndpointFile

OPERATOR, REPLICATION, APPLICATIONS = LINKED = ("OPERATOR", "REPLICATION", "APPLICATIONS")
"""The links of the primary: of drkit's commands, of the replicator and of the clients."""
FORTH, BACK = f"{PRIMARY}->{STANDBY}", f"{STANDBY}->{PRIMARY}"
ORDERS, PAYMENTS = TOPICS = ("orders", "payments")
PARTITIONS: Final = 2
LIVE_GROUP: Final = "shop"
IDLE_GROUPS: Final = {"billing": ORDERS, "audit": PAYMENTS}
"""Groups without members, and the topic of which each has read a part."""
GROUPS: Final = (LIVE_GROUP, *IDLE_GROUPS)
_FIRST_RECORDS: Final = 30
"""Records acknowledged before the groups commit."""
_CONFIGURATION: Final = """\
[clusters.primary]
bootstrap_servers = "{primary}"
client = {client}

[clusters.standby]
bootstrap_servers = "{standby}"
client = {client}

[[flows]]
source = "primary"
target = "standby"
topics = ["orders", "payments", "fresh.*"]
buckets = 2
heartbeats_interval_seconds = 0.5

[[flows]]
source = "standby"
target = "primary"
topics = ["orders", "payments", "fresh.*"]
buckets = 2
heartbeats_interval_seconds = 0.5

[failover]
journal_folder = "{journal}"
rpo_seconds = {rpo_seconds:g}
repoint = [{{ kind = "file", path = "{endpoint}" }}]
drain_seconds = 20.0
verify_seconds = 0.5

[failover.fence]
canary = {canary}
freeze_seconds = 5.0
transaction_wait_seconds = 2.0

[detection]
probe_interval_seconds = 0.4
probe_timeout_seconds = 1.0
confirm_seconds = 2.0
phi_pause_seconds = 1.0
phi_min_deviation_seconds = 0.3
"""
"""Two flows, one in each direction, and short times."""


@dataclass
class ScenarioStage(ClientStage):
    """The pair and everything at work on it; use it in a ``with``.

    :param folder: of this run: configuration, endpoint file, journal, logs, history, exports
    :param seed: of the clients' schedule and of the groups' positions
    :param parent_module: the module that forks commands, replicators and clients
    :param brokers: brokers of each cluster
    :param authorizer: clients authenticate, and both clusters enforce ACLs
    :param rpo_seconds: the loss that a failover accepts by itself
    """

    brokers: int = 1
    authorizer: bool = False
    rpo_seconds: float = 5
    progress: Progress = field(default=lambda _line: None, kw_only=True)
    """Receives what starting the clusters has to fetch or prepare."""
    orchestrator: Child | None = None
    """The command that waits at an entry of its journal, while faults happen there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.topics, self.groups = TOPICS, GROUPS
        self.live_group, self.live_topic = LIVE_GROUP, ORDERS
        self.export_folder = self.folder / "export"
        spec = ClusterSpec(
            STANDBY, self.brokers, sasl=self.authorizer, mechanisms=("PLAIN",), authorizer=self.authorizer
        )
        linked = replace(spec, name=PRIMARY, listeners=("CLIENT", *LINKED), linked=LINKED)
        self.clusters = {
            s.name: LocalCluster(s, folder=self.folder / s.name, progress=self.progress)
            for s in (linked, spec)
        }

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
            for cluster in self.clusters.values():
                cluster.stop()
            self.recorder.close()

    # -- what is at work ----------------------------------------------------------------------------

    @property
    def flows(self) -> Mapping[str, FlowSettings]:
        """The flows, by the cluster from which they copy."""
        return {PRIMARY: self.flow(FORTH), STANDBY: self.flow(BACK)}

    # -- addresses and settings ---------------------------------------------------------------------

    def bootstrap(self, cluster: str, role: str = "CLIENT") -> str:
        """Return ``bootstrap.servers`` of a cluster for a party; only the primary has links."""
        return self.clusters[cluster].bootstrap(role if cluster == PRIMARY else "CLIENT")

    def client(self, user: str = ADMIN) -> dict[str, str]:
        """Return the client properties of a user, the same on both clusters; empty without an authorizer."""
        return self.clusters[PRIMARY].client_properties(user, "PLAIN")

    def application(self, cluster: str) -> dict[str, Any]:
        """Return the properties of an application's client of a cluster."""
        return {"bootstrap.servers": self.bootstrap(cluster), **self.client(APPLICATION)}

    def cluster(self, name: str, user: str = ADMIN) -> ClusterSettings:
        """Return a cluster's settings by a way that no fault cuts."""
        return ClusterSettings(alias=name, bootstrap_servers=self.bootstrap(name), client=self.client(user))

    def config(self, user: str = OPERATOR) -> Path:
        """Return the configuration file of a party: the operator, another machine, the replicator."""
        file = self.folder / ("drkit.toml" if user == OPERATOR else f"{user.lower()}.toml")
        if not file.exists():
            text = _CONFIGURATION.format(
                primary=self.bootstrap(PRIMARY, user if user in LINKED else OPERATOR),
                standby=self.bootstrap(STANDBY),
                journal=self.folder / f"journal-{user.lower()}",
                endpoint=self.endpoint_file,
                rpo_seconds=self.rpo_seconds,
                client=_inline_table(self.client(DRKIT)),
                canary=_inline_table(self.client(APPLICATION)),
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
        self.start_replicator(FORTH)
        bootstrap = self.bootstrap(PRIMARY, APPLICATIONS)
        endpoint = Endpoint(0, PRIMARY, self.clusters[PRIMARY].cluster_id, bootstrap)
        EndpointFile(self.endpoint_file).tell(endpoint)
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
        self.wait_protected(FORTH)
        self.wait_for(self._groups_synced, "positions of all groups on the standby")

    def _groups_synced(self) -> bool:
        """Return whether the standby has a position of every group in each of its partitions."""
        return all(len(self.committed(STANDBY, group)) == PARTITIONS for group in GROUPS)

    def start_replicator(self, flow: str) -> None:
        """Start the replicator of a flow."""
        log = self.folder / f"replicator-{flow.partition('->')[0]}.log"
        self.replicators[flow] = self.parent.start_replicator(self.config(REPLICATION), flow, log)

    def stop_replicator(self, flow: str) -> None:
        """Send SIGKILL to the replicator of a flow."""
        self.replicators.pop(flow).kill()

    def waiting_command(self) -> Child:
        """Return the command that waits at an entry of its journal.

        :raises Failed: there is none
        """
        if self.orchestrator is None:
            raise Failed("no_orchestrator_running", where=self.WHERE)
        return self.orchestrator

    def wait_protected(self, flow: str) -> None:
        """Wait until the pair is PROTECTED in one direction: all topics copied and noted."""
        self.wait_pair(self.settings, self.flow(flow))


def _inline_table(table: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{key}" = "{value}"' for key, value in table.items()) + "}"
