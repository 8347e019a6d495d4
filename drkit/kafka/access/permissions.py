"""Permissions of drkit's principal on a cluster, checked without using them.

Metadata name the operations allowed on topics that exist (KIP-430). Everything else is asked by requests that
a broker checks for permission before it looks for their object, and that have no effect: they name a topic
that does not exist, or an unused producer id. No coordinator of a group is looked up: that would create the
topic of group offsets on a cluster that has none yet. Without an authorizer everything is allowed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeClusterRequest, DescribeGroupsRequest
from kafka.protocol.admin.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.admin.topics import CreatePartitionsRequest, CreateTopicsRequest
from kafka.protocol.admin.transactions import DescribeProducersRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer.produce import ProduceRequest
from kafka.protocol.producer.transaction import EndTxnRequest

from drkit.config import ClusterSettings
from drkit.kafka import codes
from drkit.kafka.access.acls import OPERATIONS
from drkit.kafka.codes import NOT_AUTHORIZED, UNKNOWN_TOPIC_OR_PARTITION
from drkit.kafka.raw import RawCluster, ask_once
from drkit.topology.acls import IMPLIED_BY, AclOperation

_BY_NAME: Final = 12
"""The last version of Produce that names topics; later ones have ids, which a missing topic lacks."""
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
"""Numbers of ``ConfigResource``."""


class Resource(IntEnum):
    """Kafka's ``ResourceType``; the value is its number in the protocol."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME: Final = "kafka-cluster"


class Need(NamedTuple):
    """One operation on one resource, and what drkit does with it."""

    resource: Resource
    name: str
    operation: AclOperation
    why: str

    def __str__(self) -> str:
        """Format it as ``kafka-acls --list`` does, with the reason."""
        return f"{self.resource.name} {self.name}: {self.operation.name} ({self.why})"


def missing(settings: ClusterSettings, needs: Iterable[Need]) -> list[Need]:
    """Return the needs that the cluster does not allow drkit, in their order.

    CREATE counts only for topics that do not exist, DELETE only for those that do.

    :raises ClusterUnreachable: no answer
    :raises NotAuthenticated: wrong credentials
    """
    wanted = list(needs)
    what = f"ask for drkit's permissions on {settings.alias}"
    return ask_once(settings, "permissions", lambda cluster: _missing(cluster, wanted), what=what)


async def _missing(cluster: RawCluster, needs: list[Need]) -> list[Need]:
    topics = list(dict.fromkeys(n.name for n in needs if n.resource is Resource.TOPIC))
    allowed = await _topic_operations(cluster, topics, {n.operation for n in needs})
    in_groups = await _group_operations(cluster, [n for n in needs if n.resource is Resource.GROUP])
    on_cluster_wanted = {n.operation for n in needs if n.resource is Resource.CLUSTER}
    on_cluster = await _cluster_operations(cluster, on_cluster_wanted) if on_cluster_wanted else set()
    ids = {n.name for n in needs if n.resource is Resource.TRANSACTIONAL_ID}
    pending = {name: cluster.loop.spawn(_may_write_as, cluster, name) for name in ids}
    may_write_as = {name: await future for name, future in pending.items()}
    not_allowed = []
    for need in needs:
        if need.resource is Resource.TOPIC:
            is_allowed = need.operation in allowed[need.name]
        elif need.resource is Resource.GROUP:
            is_allowed = (need.name, need.operation) in in_groups
        elif need.resource is Resource.CLUSTER:
            is_allowed = need.operation in on_cluster
        else:
            is_allowed = may_write_as[need.name]
        if not is_allowed:
            not_allowed.append(need)
    return not_allowed


async def _group_operations(cluster: RawCluster, needs: Iterable[Need]) -> set[tuple[str, AclOperation]]:
    """Return what is allowed on the groups of some needs; they may exist or not."""
    questions = {
        AclOperation.DESCRIBE: may_describe,
        AclOperation.READ: may_commit,
        AclOperation.DELETE: may_delete,
    }
    by_operation: dict[AclOperation, list[str]] = {}
    for need in needs:
        by_operation.setdefault(need.operation, []).append(need.name)
    return {
        (group, operation)
        for operation, groups in by_operation.items()
        for group in await questions[operation](cluster, groups)
    }


async def _cluster_operations(cluster: RawCluster, needed: Collection[AclOperation]) -> set[AclOperation]:
    """Return the operations allowed on the cluster, as it lists them; DESCRIBE_CONFIGS is tried."""
    answer = await cluster.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    allowed = set(_operations(answer.authorized_operations))
    if AclOperation.DESCRIBE_CONFIGS in needed and await _may_read_broker_settings(cluster):
        allowed.add(AclOperation.DESCRIBE_CONFIGS)
    return allowed


async def _may_read_broker_settings(cluster: RawCluster) -> bool:
    node = cluster.nodes()[0]
    request, codes = _ask_configs(_BROKER_RESOURCE, [str(node)])
    return all(code not in NOT_AUTHORIZED for _, code in codes(await cluster.send(request, node)))


async def _topic_operations(
    cluster: RawCluster, names: list[str], needed: set[AclOperation]
) -> dict[str, set[AclOperation]]:
    topic_of = MetadataRequest.MetadataRequestTopic
    if not names:
        return {}
    response = await cluster.send(
        MetadataRequest(
            topics=[topic_of(name=n) for n in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
    )
    # A test of DELETE would delete: it counts only for topics that exist, which the brokers report.
    allowed: dict[str, set[AclOperation]] = {n: {AclOperation.DELETE} for n in names}
    unknown = []
    for topic in response.topics:
        if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION or topic.error_code in NOT_AUTHORIZED:
            unknown.append(topic.name)
        else:
            allowed[topic.name] = {*_operations(topic.authorized_operations), AclOperation.CREATE}
    if unknown:
        for operation, question in _QUESTIONS.items():
            if operation in needed:
                request, codes = question(unknown)
                replied = codes(await cluster.send(request, response.controller_id))
                for name, code in replied:
                    if code not in NOT_AUTHORIZED:
                        allowed[name].add(operation)
    return allowed


async def _may_write_as(cluster: RawCluster, transactional_id: str) -> bool:
    """Return whether drkit may end a transaction of this id, by a request with an unused producer id."""
    answer = await cluster.send(
        EndTxnRequest(
            max_version=3,
            transactional_id=transactional_id,
            producer_id=-1,
            producer_epoch=0,
            committed=False,
        )
    )
    return answer.error_code not in NOT_AUTHORIZED


def _operations(codes: Collection[int] | None) -> frozenset[AclOperation]:
    listed = {OPERATIONS[code] for code in codes or () if code in OPERATIONS}
    return frozenset(listed | {o for o, by in IMPLIED_BY.items() if listed & by})


Question = tuple[Any, Callable[[Any], Iterable[tuple[str, int]]]]


def _ask_read(names: list[str]) -> Question:
    topic_of = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(topics=[topic_of(name=n, partition_indexes=[0]) for n in names])
    return request, lambda a: ((t.name, p.error_code) for t in a.topics for p in t.partitions)


def _ask_write(names: list[str]) -> Question:
    topic_of = ProduceRequest.TopicProduceData
    data = [
        topic_of(name=n, partition_data=[topic_of.PartitionProduceData(index=0, records=None)]) for n in names
    ]
    request = ProduceRequest(
        max_version=_BY_NAME, transactional_id=None, acks=-1, timeout_ms=1000, topic_data=data
    )
    return request, lambda a: ((t.name, p.error_code) for t in a.responses for p in t.partition_responses)


def _ask_create(names: list[str]) -> Question:
    topic_of = CreateTopicsRequest.CreatableTopic
    topics = [
        topic_of(name=n, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for n in names
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True)
    return request, lambda a: ((t.name, t.error_code) for t in a.topics)


def _ask_alter(names: list[str]) -> Question:
    topic_of = CreatePartitionsRequest.CreatePartitionsTopic
    topics = [topic_of(name=n, count=1, assignments=None) for n in names]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=True)
    return request, lambda a: ((t.name, t.error_code) for t in a.results)


def _ask_configs(kind: int, names: list[str]) -> Question:
    resource_of = DescribeConfigsRequest.DescribeConfigsResource
    resources = [resource_of(resource_type=kind, resource_name=n, configuration_keys=[]) for n in names]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
    return request, lambda a: ((r.resource_name, r.error_code) for r in a.results)


def _ask_alter_configs(names: list[str]) -> Question:
    resource_of = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [resource_of(resource_type=_TOPIC_RESOURCE, resource_name=n, configs=[]) for n in names]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
    return request, lambda a: ((r.resource_name, r.error_code) for r in a.responses)


_QUESTIONS: Final[dict[AclOperation, Callable[[list[str]], Question]]] = {
    AclOperation.READ: _ask_read,
    AclOperation.WRITE: _ask_write,
    AclOperation.CREATE: _ask_create,
    AclOperation.ALTER: _ask_alter,
    AclOperation.DESCRIBE_CONFIGS: partial(_ask_configs, _TOPIC_RESOURCE),
    AclOperation.ALTER_CONFIGS: _ask_alter_configs,
}


_AT_ONCE: Final = 500
_REQUESTS_AT_ONCE: Final = 10
_NOWHERE: Final = ("drkit-nowhere", -1)
"""No topic has a partition of this number: a commit for it stores nothing."""
_OUTSIDE: Final = -1
_COMMIT_BY_NAME: Final = 9
"""The last version of OffsetCommit that names topics."""


async def may_describe(cluster: RawCluster, groups: Iterable[str]) -> list[str]:
    """Return the groups that drkit may DESCRIBE: see their members and offsets."""
    names = list(groups)
    allowed = []
    for begin in range(0, len(names), _AT_ONCE):
        part = names[begin : begin + _AT_ONCE]
        answer = await cluster.send(DescribeGroupsRequest(groups=part, include_authorized_operations=False))
        allowed += [g.group_id for g in answer.groups if g.error_code != codes.GROUP_AUTHORIZATION_FAILED]
    return allowed


async def may_commit(cluster: RawCluster, groups: Iterable[str]) -> list[str]:
    """Return the groups that drkit may READ: commit offsets for them."""

    async def ask(group: str) -> bool:
        topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = topic_of.OffsetCommitRequestPartition(
            partition_index=_NOWHERE[1], committed_offset=0, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=_OUTSIDE,
            member_id="",
            topics=[topic_of(name=_NOWHERE[0], partitions=[partition])],
            max_version=_COMMIT_BY_NAME,
        )
        answer = await cluster.send(request)
        return all(
            p.error_code != codes.GROUP_AUTHORIZATION_FAILED for t in answer.topics for p in t.partitions
        )

    return await _each(cluster, groups, ask)


async def may_delete(cluster: RawCluster, groups: Iterable[str]) -> list[str]:
    """Return the groups that drkit may DELETE."""

    async def ask(group: str) -> bool:
        answer = await cluster.send(OffsetDeleteRequest(group_id=group, topics=[]))
        return bool(answer.error_code != codes.GROUP_AUTHORIZATION_FAILED)

    return await _each(cluster, groups, ask)


async def _each(
    cluster: RawCluster, groups: Iterable[str], ask: Callable[[str], Awaitable[bool]]
) -> list[str]:
    names = list(groups)
    answers = await cluster.loop.some_at_once(ask, names, _REQUESTS_AT_ONCE)
    return [name for name, is_allowed in zip(names, answers, strict=True) if is_allowed]
