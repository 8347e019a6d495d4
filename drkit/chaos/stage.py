"""The stage of a scenario: a local pair with a link for each party, and everything at work on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
import json
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from drkit.config import ClusterSettings, load
from drkit.endpoint import Endpoint
from drkit.errors import Failed, raise_first
from drkit.exercise.events import PRIMARY, STANDBY
from drkit.exercise.processes import Child
from drkit.exercise.stage import PARTITIONS, ClientStage
from drkit.exercise.verdict import ScenarioVerdict
from drkit.kafka.access.acls import create_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.repoint.file import EndpointFile
from drkit.topology.acls import ANY_HOST, ANY_NAME, Acl, AclOperation, PatternKind, Permission, ResourceKind

OPERATOR, REPLICATION, APPLICATIONS = LINKED = ("OPERATOR", "REPLICATION", "APPLICATIONS")
"""The links of the primary: of drkit's commands, of the replicator and of the clients."""
DRKIT, APPLICATION = "drkit", "app"
"""Users of a pair with an authorizer."""
ORDERS, PAYMENTS = TOPICS = ("orders", "payments")
LIVE_GROUP: Final = "shop"
WRITERS: Final = ("writer", "transactions", "till")
IDLE_GROUPS: Final = {"billing": ORDERS, "audit": PAYMENTS}
"""Groups without members, and the topic of which each has read a part."""
_FIRST_RECORDS: Final = 30
"""Records acknowledged before the groups commit."""
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
class ScenarioStage(ClientStage):
    """A local pair with a link for each party, and everything at work on it; use it in a ``with``.

    :param brokers: brokers of each cluster
    :param authorizer: clients authenticate, and both clusters enforce ACLs
    :param rpo_seconds: the loss that a failover accepts by itself
    """

    WHERE: ClassVar[str] = "chaos"

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
        self.topics, self.groups = TOPICS, {LIVE_GROUP: ORDERS, **IDLE_GROUPS}
        self.live_group = LIVE_GROUP
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
        self.recorder.close()

    def bootstrap(self, cluster: str, role: str = "CLIENT") -> str:
        """Return ``bootstrap.servers`` of a cluster for a party; only the primary has links."""
        return self.clusters[cluster].bootstrap(role if cluster == PRIMARY else "CLIENT")

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
        raise_first(create_topics(Cluster.connect(self.cluster(PRIMARY)), plans))
        self.start_replicator(PRIMARY)
        bootstrap = self.bootstrap(PRIMARY, APPLICATIONS)
        ids = {cluster.cluster_id: name for name, cluster in self.clusters.items()}
        EndpointFile(self.endpoint_file).tell(
            Endpoint(0, PRIMARY, self.clusters[PRIMARY].cluster_id, bootstrap)
        )
        direct = {"cluster": PRIMARY, "bootstrap": bootstrap}
        following = {"endpoint": str(self.endpoint_file), "clusters": ids, "topics": [ORDERS]}
        self.start_client("writer", "writer", **direct, topics=TOPICS)
        self.start_client("transactions", "transactional writer", **direct, topics=TOPICS)
        self.start_client("shop", "following consumer", **following, group=LIVE_GROUP)
        self.start_client("till", "following writer", **{**following, "topics": TOPICS})
        self.wait_acked(_FIRST_RECORDS, "writer")
        for number, (group, topic) in enumerate(IDLE_GROUPS.items()):
            self.commit_behind_markers(group, topic, (self.seed + number) % 3)
        self.wait_steady()

    def start_replicator(self, source: str) -> None:
        """Start the replicator of the flow from a cluster."""
        settings, flow = load(self.config(REPLICATION)), self.flows[source]
        self.replicators[source] = self.parent.start_replicator(settings, flow, self.folder)

    def kill_replicator(self) -> tuple[str, Child]:
        """Kill the replicator at work; return the cluster from which it copied, and its process."""
        source, child = self.replicators.popitem()
        self.note_ended(f"replicator {source}", child)
        child.kill()
        return source, child

    def waiting_command(self) -> Child:
        """Return the command that waits at an entry of its journal. Raises Failed if no command waits."""
        if self.orchestrator is None:
            raise Failed("no_orchestrator_running", where=self.WHERE)
        return self.orchestrator


def _allow(
    user: str, resource: ResourceKind, name: str = ANY_NAME, operation: AclOperation = AclOperation.ALL
) -> Acl:
    principal, literal = f"User:{user}", PatternKind.LITERAL
    return Acl(resource, literal, name, principal, ANY_HOST, operation, permission=Permission.ALLOW)


DRKIT_ON_CLUSTER: Final = _allow(DRKIT, ResourceKind.CLUSTER, "kafka-cluster")
"""The ACL of drkit on a cluster as a whole: to change ACLs, to end transactions of others."""


def grant_rights(admin: ClusterSettings, topics: Sequence[str]) -> None:
    """Give drkit every right on a cluster, and applications those on topics and all groups."""
    kinds = ResourceKind.GROUP, ResourceKind.TRANSACTIONAL_ID
    rights = [_allow(user, kind) for user in (DRKIT, APPLICATION) for kind in kinds]
    rights += [_allow(DRKIT, ResourceKind.TOPIC), DRKIT_ON_CLUSTER]
    for operation in (AclOperation.READ, AclOperation.WRITE):
        rights += [_allow(APPLICATION, ResourceKind.TOPIC, topic, operation) for topic in topics]
    raise_first(create_acls(admin, rights))


def _toml_table(title: str, values: Mapping[str, Any]) -> str:
    """Return a table of TOML, which writes strings, numbers and lists as JSON does."""
    lines = (f"{json.dumps(k)} = {json.dumps(v, ensure_ascii=False)}\n" for k, v in values.items())
    return "".join((f"{title}\n", *lines))
