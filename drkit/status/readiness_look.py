"""The facts of a flow's target for :mod:`drkit.detect.readiness`: brokers, replicas, parity, disks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drkit.clock import Seconds, monotonic
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.detect.readiness import Disk, Parity, TargetFacts
from drkit.errors import DrkitError
from drkit.kafka.admin import Cluster, ClusterDescription
from drkit.kafka.raw import RawCluster, RawError, RequestUnsupported, connections
from drkit.kafka.requests import DescribeLogDirsRequest, TopicMetadata, describe_registered
from drkit.kafka.topics import describe_topics, topic_configs
from drkit.status.model import FlowStatus
from drkit.topic_sync.acl_sync import acl_plan
from drkit.topic_sync.preview import topic_plan

PARITY_SECONDS: Final = 60.0
_NO_ACL_CHANGE: Final = frozenset({"hold acl", "leave out acl", "no acl sync"})
_CONNECT_MS: Final = 5000


@dataclass
class ReadinessLook:
    """Looks repeatedly; use it from one thread.

    :param parity_seconds: how often both clusters are compared, while both answer
    """

    settings: Settings
    flow: FlowSettings
    clock: Seconds = monotonic
    parity_seconds: float = PARITY_SECONDS

    def __post_init__(self) -> None:
        self._parity: Parity | None = None
        self._compared = float("-inf")

    def look(self, status: FlowStatus | None) -> TargetFacts:
        """Look now.

        :param status: the newest status of the flow; None: no look yet
        """
        faults = None if status is None else {f.code: f.text for f in status.faults}
        if status is not None and status.source_answers and status.target_answers:
            self._compare()
        _, settings = self.settings.sides(self.flow)
        try:
            cluster = Cluster.connect(settings)
            topics = describe_topics(cluster, {p.target_topic for p in status.partitions} if status else ())
            minimum = {t: int(c["min.insync.replicas"].value or 1)
                       for t, c in topic_configs(cluster, topics).items()}  # fmt: skip
            alive = tuple(b.id for b in cluster.brokers)
            registered, disks = _asked(settings)
        except DrkitError as error:
            return TargetFacts(error.in_short, faults=faults, parity=self._aged())
        return TargetFacts(
            "",
            alive,
            registered,
            *_partitions(topics, minimum),
            faults=faults,
            parity=self._aged(),
            disks=disks,
        )

    def _compare(self) -> None:
        if self.clock() - self._compared < self.parity_seconds:
            return
        self._compared = self.clock()
        try:
            changes = tuple(
                _row(r) for r in topic_plan(self.settings, [self.flow]) if r["what"] != "leave out"
            )
            acls = tuple(
                f"{r['topic']}: {r['what']} {r['setting']}"
                for r in acl_plan(self.settings, [self.flow])
                if r["what"] not in _NO_ACL_CHANGE
            )
            self._parity = Parity(0.0, changes, acls)
        except DrkitError as error:
            self._parity = Parity(0.0, error=error.in_short)

    def _aged(self) -> Parity | None:
        if self._parity is None:
            return None
        return self._parity._replace(age_seconds=self.clock() - self._compared)


def _row(row: Mapping[str, Any]) -> str:
    where = f"{row['topic']} {row['setting']}".strip()
    return f"{where}: {row['from']} → {row['to']}" if row["from"] is not None else f"{where}: {row['what']}"


def _partitions(
    topics: Mapping[str, TopicMetadata], minimum: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    every = [(f"{t.name}-{n}", t.name, p) for t in topics.values() for n, p in t.leaders.items()]
    offline = tuple(name for name, _, p in every if p.node < 0)
    refusing = tuple(
        name for name, topic, p in every if len(p.in_sync) < minimum.get(topic, 1) and name not in offline
    )
    return offline, refusing, sum(len(p.in_sync) < len(p.replicas) for _, _, p in every)


def _asked(settings: ClusterSettings) -> tuple[tuple[int, ...] | None, tuple[Disk, ...] | None]:
    with connections("readiness", settings) as (raw,):
        loop = raw.loop
        loop.run(raw.connect, _CONNECT_MS)
        cluster: ClusterDescription | None = _answer(lambda: loop.run(describe_registered, raw))
        registered = None if cluster is None else tuple(broker.id for broker in cluster.brokers)
        return registered, _answer(lambda: loop.run(_disks, raw))


def read_disks(settings: ClusterSettings) -> tuple[Disk, ...] | None:
    """Return the disks of all brokers, or None if they do not report them.

    :raises DrkitError: the cluster does not answer
    """
    return _asked(settings)[1]


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (RawError, RequestUnsupported):
        return None


async def _disks(raw: RawCluster) -> tuple[Disk, ...] | None:
    found = []
    for node in raw.nodes():
        answer = await raw.send(DescribeLogDirsRequest(topics=[], min_version=4), node)
        if answer.error_code:
            return None
        found += [
            Disk(node, d.log_dir, d.usable_bytes, d.total_bytes)
            for d in answer.results
            if not d.error_code and d.total_bytes > 0
        ]
    return tuple(found)
