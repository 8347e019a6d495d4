"""Further facts for the judgement of a pair: actual fences and deltas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from drkit.config import ClusterSettings
from drkit.errors import DrkitError
from drkit.flow_state.records import RoleRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.access.acls import NoAuthorizer, list_acls, own_principals
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    TopicMetadata,
    by_leader,
    fetch_one,
    list_offsets,
    metadata,
    volumes,
)
from drkit.kafka.topics import topic_configs
from drkit.model import TopicPartition
from drkit.pair.view import NOT_ASKED, Refusing
from drkit.status.pair.delta import (
    CLEANUP_POLICY,
    DELETE_RETENTION_MS,
    RETENTION_BYTES,
    RETENTION_MS,
    PartitionDelta,
)
from drkit.status.pair.facts import acls_of, sizes_of
from drkit.topology.acl_scope import refuses_clients, writers
from drkit.topology.acls import Acl
from drkit.topology.topic_configs import MAX_MESSAGE_BYTES, NOTHING_PASSES
from drkit.wire import CorruptBatch, read_header, visible

_ONE_BATCH: Final = 1
"""Fetch limit; a broker returns the first batch whole, however large."""
_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")
"""With the maximum value for both, the log cleaner is paused."""
_SETTINGS: Final = (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES, DELETE_RETENTION_MS, *_LAGS)


def fences_gone(settings: ClusterSettings, state: FlowState, topics: Collection[str]) -> frozenset[str]:
    """Return the source topics whose fence is on record in a flow's state, and not whole on the source.

    :raises DrkitError: the source does not answer
    """
    sizes = [t for t in sizes_of(state) if t in topics]
    by_size = _with_size(settings, sizes, lambda value: value != NOTHING_PASSES)
    return open_by_acl(settings, state, topics) | by_size


def open_by_acl(settings: ClusterSettings, state: FlowState, topics: Collection[str]) -> frozenset[str]:
    """Return the topics whose recorded fence by ACL is not whole, or leaves out a principal that may write.

    It denies those that could write when it was applied. Raises DrkitError: the source does not answer.
    """
    fence = {acl for acl in acls_of(state) if acl.name in topics}
    found = frozenset[Acl]()
    with suppress(NoAuthorizer):
        found = list_acls(settings).acls if fence else found
    spared = {a.principal for a in fence if not a.denies} | own_principals(settings)
    spared |= {a.principal for a in found if a.name.startswith("drkit-")}  # on another machine
    return frozenset(a.name for a in fence if a not in found or writers(a.name, found, spared, is_open=True))


def refusing_by_size(settings: ClusterSettings, topics: Collection[str]) -> frozenset[str]:
    """Return those of some topics whose settings refuse every record. Raises DrkitError."""
    return frozenset(_with_size(settings, topics, lambda value: value == NOTHING_PASSES))


def refusing_topics(settings: ClusterSettings, topics: Collection[str]) -> Refusing:
    """Return the topics that refuse every client, by settings or ACLs, and why others are unknown."""
    if not topics:
        return NOT_ASKED
    by_size = frozenset[str]()
    try:
        by_size = refusing_by_size(settings, topics)
        acls, own = list_acls(settings).acls, own_principals(settings)
    except NoAuthorizer:
        return Refusing(by_size)
    except DrkitError as error:
        return Refusing(by_size, error.in_short)
    return Refusing(by_size | {topic for topic in topics if refuses_clients(topic, acls, own)})


def _with_size(
    settings: ClusterSettings, topics: Collection[str], judged: Callable[[str | None], bool]
) -> set[str]:
    by_topic = topic_configs(Cluster.connect(settings), topics) if topics else {}
    return {topic for topic, configs in by_topic.items() if judged(configs[MAX_MESSAGE_BYTES].value)}


def retention_of(settings: ClusterSettings, topics: Collection[str]) -> dict[str, dict[str, str | None]]:
    """Return the settings of topics that decide what is removed. Raises DrkitError if there is no answer."""
    configs = topic_configs(Cluster.connect(settings), topics)
    return {t: {n: c[n].value for n in _SETTINGS if n in c} for t, c in configs.items()}


class DeltaLook:
    """Reads the deltas of the active side; reads the time of a first record only once."""

    def __init__(self) -> None:
        self._oldest: dict[tuple[str, TopicPartition], int] = {}
        """By promotion and partition."""

    async def partitions(
        self, cluster: RawCluster, roles: Mapping[str, RoleRecord], *, sizes: bool
    ) -> dict[str, list[PartitionDelta]]:
        """Return the deltas of some topics; partitions without a leader are left out.

        :param roles: topic of the active side → its promotion
        :param sizes: also ask for the size of partitions
        :raises RawError: no answer
        """
        topics = await metadata(cluster, list(roles))
        volume = await volumes(cluster, topics) if sizes else {}
        cuts = {
            TopicPartition(name, number): cut
            for name, role in roles.items()
            for number, cut in (role.ends or {}).items()
            if cut is not None
        }
        known = self._oldest.items()
        self._oldest = {(r, tp): ms for (r, tp), ms in known if tp in cuts and roles[tp.topic].run_id == r}
        out: dict[str, list[PartitionDelta]] = {name: [] for name, topic in topics.items() if not topic.error}
        for node, tps in by_leader(topics, cuts).items():
            starts = await list_offsets(cluster, node, dict.fromkeys(tps, EARLIEST), committed=False)
            ends = await list_offsets(cluster, node, dict.fromkeys(tps, LATEST), committed=False)
            for tp in tps:
                if starts[tp].error or ends[tp].error:
                    continue
                cut, start, end = cuts[tp], starts[tp].offset, ends[tp].offset
                key = (roles[tp.topic].run_id, tp)
                if key not in self._oldest and end > max(cut, start):
                    oldest = await _first_ms(cluster, (node, topics[tp.topic]), tp, (max(cut, start), end))
                    if oldest is not None:
                        self._oldest[key] = oldest
                delta = PartitionDelta(cut, start, end, self._oldest.get(key), volume.get(tp))
                out[tp.topic].append(delta)
        return out


async def _first_ms(
    cluster: RawCluster, leader: tuple[int, TopicMetadata], at: TopicPartition, between: tuple[int, int]
) -> int | None:
    node, topic = leader
    answer = await fetch_one(
        cluster, node, (at.topic, topic.topic_id), at.partition, between[0], committed=False,
        max_bytes=_ONE_BATCH, max_wait_ms=0,
    )  # fmt: skip
    try:
        chunks = visible(answer.records or b"", *between).chunks
    except CorruptBatch:
        return None
    return int(read_header(chunks[0].data).base_timestamp) if chunks else None
