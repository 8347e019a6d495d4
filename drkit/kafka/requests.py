"""Requests to the brokers of a cluster, one coroutine each, on a :class:`RawCluster`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from kafka.protocol.admin import DeleteRecordsRequest, DeleteTopicsRequest
from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.cluster import DescribeLogDirsRequest as DescribeLogDirsRequest
from kafka.protocol.admin.transactions import DescribeProducersRequest
from kafka.protocol.consumer.fetch import FetchRequest as FetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest as MetadataRequest
from kafka.protocol.producer.produce import ProduceRequest

from drkit.clock import monotonic
from drkit.errors import Failed, NotAuthorized
from drkit.kafka import codes
from drkit.kafka.admin import Broker, ClusterDescription
from drkit.kafka.raw import RawCluster, RawError, RequestTimeout
from drkit.model import TopicPartition

T = TypeVar("T")
EARLIEST = -2
LATEST = -1
ALL = -1
_NO_EPOCH = -1
_THROTTLED_SECONDS = 0.1
_STATE = attrgetter(
    "producer_epoch", "last_sequence", "current_txn_start_offset", "coordinator_epoch", "last_timestamp"
)
_WHOLE: Any = {"current_leader_epoch": _NO_EPOCH, "log_start_offset": -1}
_NO_SESSION: Any = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
_CONSUMER = -1
_DEBUGGING_REPLICA = -2
"""Kafka's own number for a reader that sees what is not replicated yet (ListOffsetsRequest)."""
_NO_TOPIC = UUID(int=0)
NO_LEADER: Final = -1
_DELETE_MS: Final = 20_000
_ANSWER_MS: Final = 5_000
"""How much longer an answer may take than the brokers may."""


class PartitionLeader(NamedTuple):
    """The leader of a partition, and its replicas."""

    node: int
    """Id of the broker, or −1 while no broker leads it."""
    epoch: int
    replicas: tuple[int, ...] = ()
    """Ids of the brokers that hold the partition."""
    in_sync: tuple[int, ...] = ()
    """Ids of the in-sync replicas."""


class TopicMetadata(NamedTuple):
    """A topic as the cluster knows it now."""

    error: int
    topic_id: UUID
    """Differs from that of a later topic of the same name (KIP-516), or 0 if there is no such topic."""
    leaders: dict[int, PartitionLeader]
    """By partition, in order."""
    name: str = ""

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition."""
        return len(self.leaders[0].replicas)


def exists(name: str, topic: TopicMetadata, alias: str) -> bool:
    """Return whether one of drkit's topics exists. Raises NotAuthorized or Failed: that is unknown."""
    if topic.error and topic.error not in codes.NO_SUCH_TOPIC:
        kind = NotAuthorized if topic.error == codes.TOPIC_AUTHORIZATION_FAILED else Failed
        raise kind("own_topic_unreadable", where=alias, evidence=f"{name}: {codes.error_name(topic.error)}")
    return not topic.error


class ListedOffset(NamedTuple):
    """An answer of ListOffsets for one partition."""

    error: int
    offset: int
    leader_epoch: int


class ProducerState(NamedTuple):
    """A producer as a partition's leader remembers it."""

    epoch: int
    last_sequence: int
    open_since: int
    """First offset of its open transaction, −1 if none."""
    coordinator_epoch: int = -1
    """Epoch of the coordinator that wrote its last marker, −1 if none did."""
    last_timestamp: int = -1
    """Timestamp of its last batch in ms, −1 if the leader has none."""


async def metadata(
    cluster: RawCluster, topics: Iterable[str] | None, node: int | None = None, *, timeout_ms: int = 10_000
) -> dict[str, TopicMetadata]:
    """Return ids and leaders of topics by name.

    :param topics: names, or None for all that drkit's principal may see
    :param node: the broker to ask, or None for any
    """
    topic_of = MetadataRequest.MetadataRequestTopic
    requested = None if topics is None else [topic_of(name=t) for t in topics]
    request = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
    answer = await cluster.send(request, node, timeout_ms=timeout_ms)
    return {
        t.name: TopicMetadata(
            t.error_code,
            t.topic_id or _NO_TOPIC,
            {
                p.partition_index: PartitionLeader(
                    p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes)
                )
                for p in sorted(t.partitions, key=lambda p: p.partition_index)
            },
            t.name,
        )
        for t in answer.topics
    }


async def all_topics(cluster: RawCluster) -> dict[str, TopicMetadata]:
    """Return ids and leaders of every topic that drkit's principal may see."""
    return await metadata(cluster, None)


async def metadata_of_all(cluster: RawCluster, topics: Collection[str]) -> dict[str, list[TopicMetadata]]:
    """Return what each broker answers: one just started may be behind. Raises RawError if one is silent."""
    answers: dict[str, list[TopicMetadata]] = {name: [] for name in topics}
    for node in sorted(cluster.nodes()):
        for name, topic in (await metadata(cluster, topics, node)).items():
            answers[name].append(topic)
    return answers


async def describe_cluster(cluster: RawCluster) -> ClusterDescription:
    """Return the id of a cluster and its active brokers. Raises RawError if no broker answers."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    answer = await cluster.send(request, timeout_ms=10_000)
    brokers = sorted(Broker(b.node_id, b.host, b.port) for b in answer.brokers)
    return ClusterDescription(str(answer.cluster_id), brokers)


async def describe_registered(cluster: RawCluster, timeout_ms: int = 30_000) -> ClusterDescription:
    """Return the id of a cluster and all its registered brokers, also those that are down (KIP-1073).

    :raises RawError: no answer, brokers before Kafka 4.0, or a refusal
    """
    request = DescribeClusterRequest(include_fenced_brokers=True, min_version=2)
    answer = await cluster.send(request, timeout_ms=timeout_ms)
    if answer.error_code:
        raise RawError(f"DescribeCluster: {codes.error_name(answer.error_code)}")
    brokers = sorted(Broker(b.broker_id, b.host, b.port) for b in answer.brokers)
    return ClusterDescription(answer.cluster_id, brokers)


async def list_offsets(
    cluster: RawCluster,
    node: int,
    partitions: Mapping[TopicPartition, int],
    *,
    committed: bool,
    written: bool = False,
    epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
    timeout_ms: int = 30_000,
) -> dict[TopicPartition, ListedOffset]:
    """Return offsets of partitions led by one broker.

    :param partitions: partition → `EARLIEST`, `LATEST` or a timestamp in ms
    :param committed: LATEST means the last stable offset instead of the high watermark
    :param written: LATEST means the end of the leader's own log, replicated or not
    :param epochs: leader epochs that the broker has to know, or it answers with an error (KIP-320)
    """
    topic_of = ListOffsetsRequest.ListOffsetsTopic

    def query(topic: str, number: int) -> Any:
        tp = TopicPartition(topic, number)
        return topic_of.ListOffsetsPartition(
            partition_index=number, current_leader_epoch=epochs.get(tp, _NO_EPOCH), timestamp=partitions[tp]
        )

    answer = await cluster.send(
        ListOffsetsRequest(
            replica_id=_DEBUGGING_REPLICA if written else _CONSUMER,
            isolation_level=1 if committed else 0,
            topics=[
                topic_of(name=t, partitions=[query(t, n) for n in numbers])
                for t, numbers in grouped(partitions)
            ],
            timeout_ms=10_000,
        ),
        node,
        timeout_ms=timeout_ms,
    )
    return by_partition(answer, lambda p: ListedOffset(p.error_code, p.offset, p.leader_epoch))


def by_partition(answer: Any, value: Callable[[Any], T]) -> dict[TopicPartition, T]:
    """Return a value for each partition in the answer to a request."""
    return {TopicPartition(t.name, p.partition_index): value(p) for t in answer.topics for p in t.partitions}


async def describe_producers(
    cluster: RawCluster, node: int, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, dict[int, ProducerState]]]:
    """Return error code and known producers per partition led by one broker (KIP-664)."""
    topic_of = DescribeProducersRequest.TopicRequest
    topics = [topic_of(name=t, partition_indexes=numbers) for t, numbers in grouped(partitions)]
    answer = await cluster.send(DescribeProducersRequest(topics=topics), node)
    return by_partition(
        answer,
        lambda p: (p.error_code, {s.producer_id: ProducerState(*_STATE(s)) for s in p.active_producers}),
    )


async def fetch_one(
    cluster: RawCluster,
    node: int,
    topic: tuple[str, UUID],
    partition: int,
    offset: int,
    *,
    committed: bool = True,
    max_bytes: int = 8 << 20,
    max_wait_ms: int = 100,
    timeout_ms: int = 30_000,
    last_epoch: int = _NO_EPOCH,
) -> Any:
    """Fetch from one partition outside a session; returns the response's partition data.

    A throttled fetch is answered without data (KIP-219): it is sent again when the connection may be used.

    :param last_epoch: leader epoch of the records before the offset; a log without them says so (KIP-595)
    :raises RawError: no answer with data in time
    """
    request = fetch_request(
        topic, {partition: offset}, committed=committed, partition_bytes=max_bytes, max_bytes=max_bytes,
        max_wait_ms=max_wait_ms, last_epoch=last_epoch,
    )  # fmt: skip
    deadline = monotonic() + timeout_ms / 1000
    while True:
        answer = await cluster.send(request, node, timeout_ms=timeout_ms)
        if answer.responses:
            return answer.responses[0].partitions[0]
        if monotonic() > deadline:
            raise RequestTimeout(f"{cluster.alias} throttles reads of {topic[0]}")
        await cluster.loop.sleep(_THROTTLED_SECONDS)


def fetch_request(
    topic: tuple[str, UUID],
    offsets: Mapping[int, int],
    *,
    committed: bool,
    partition_bytes: int,
    max_bytes: int,
    max_wait_ms: int = 0,
    last_epoch: int = _NO_EPOCH,
) -> FetchRequest:
    """Build a fetch outside a session, from one broker.

    :param offsets: partition → first offset
    :param max_wait_ms: 0: answer at once with what is there
    """
    topic_of, partition_of = FetchRequest.FetchTopic, FetchRequest.FetchTopic.FetchPartition
    whole = _WHOLE | {"last_fetched_epoch": last_epoch}
    partitions = [
        partition_of(partition=n, fetch_offset=offset, partition_max_bytes=partition_bytes, **whole)
        for n, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=max_bytes,
        isolation_level=1 if committed else 0,
        topics=[topic_of(topic=topic[0], topic_id=topic[1], partitions=partitions)],
        **_NO_SESSION,
    )


def aborted_in(answer: Any) -> list[tuple[int, int]]:
    """Return the aborted transactions of a fetched partition: producer id, first offset (KIP-98)."""
    return [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]


class Append(NamedTuple):
    """One batch for one partition in a Produce request."""

    topic: str
    topic_id: UUID
    partition: int
    data: bytes | bytearray


def produce_request(
    appends: Iterable[Append], *, transactional_id: str | None = None, timeout_ms: int = 30_000,
    acks: int = ALL,
) -> ProduceRequest:  # fmt: skip
    """Build a Produce request: one batch per partition, many partitions."""
    topic_of = ProduceRequest.TopicProduceData
    by_topic: dict[tuple[str, UUID], list[Any]] = {}
    for a in appends:
        by_topic.setdefault((a.topic, a.topic_id), []).append(
            topic_of.PartitionProduceData(index=a.partition, records=a.data)
        )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            topic_of(name=name, topic_id=topic_id, partition_data=data)
            for (name, topic_id), data in by_topic.items()
        ],
    )


async def produced(
    cluster: RawCluster, node: int, appends: Iterable[Append], *, timeout_ms: int, acks: int = ALL
) -> dict[TopicPartition, int]:
    """Send batches for partitions of one leader in one request; return the error code of each.

    :raises RawError: no answer
    """
    some = list(appends)
    answer = await cluster.send(produce_request(some, acks=acks), node, timeout_ms=timeout_ms)
    # Since version 13 a topic is named by its id alone (KIP-516).
    names = {a.topic_id: a.topic for a in some}
    return {
        TopicPartition(topic.name or names[topic.topic_id], r.index): int(r.error_code)
        for topic in answer.responses
        for r in topic.partition_responses
    }


async def listed(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    partitions: Iterable[TopicPartition],
    which: int | Mapping[TopicPartition, int],
    *,
    written: bool = False,
    timeout_ms: int = 30_000,
) -> dict[TopicPartition, int]:
    """Return start or last stable offsets; partitions without an answer are left out.

    :param which: for all, or for each a time in ms; −1 is returned where no record is of it or later
    """

    async def ask(node: int, led: list[TopicPartition]) -> dict[TopicPartition, int]:
        times = dict.fromkeys(led, which) if isinstance(which, int) else {tp: which[tp] for tp in led}
        try:
            answers = await list_offsets(
                cluster, node, times, committed=True, written=written, timeout_ms=timeout_ms
            )
        except RawError:  # this broker alone does not answer
            return {}
        return {tp: a.offset for tp, a in answers.items() if not a.error}

    return await ask_leaders(cluster, topics, partitions, ask)


async def volumes(cluster: RawCluster, topics: Mapping[str, TopicMetadata]) -> dict[TopicPartition, int]:
    """Return the size of each partition's largest replica, without partitions that no broker reports."""
    one = DescribeLogDirsRequest.DescribableLogDirTopic
    requested = [one(topic=name, partitions=list(topic.leaders)) for name, topic in topics.items()]
    answers, _ = await cluster.ask_each(
        cluster.nodes(), lambda node: cluster.send(DescribeLogDirsRequest(topics=requested), node)
    )
    out: dict[TopicPartition, int] = {}
    for topic in (t for a in answers.values() for d in a.results if not d.error_code for t in d.topics):
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            out[tp] = max(out.get(tp, 0), p.partition_size)
    return out


async def ask_leaders(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    partitions: Iterable[TopicPartition],
    ask: Callable[[int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T]]],
) -> dict[TopicPartition, T]:
    """Ask each leader once about its partitions, all leaders at the same time.

    :param ask: asks one broker about some partitions; its errors are raised
    :returns: the answers of all; partitions without a leader are left out
    """
    nodes = by_leader(topics, partitions)
    out: dict[TopicPartition, T] = {}
    for answers in await cluster.loop.together(lambda each: ask(*each), nodes.items()):
        out |= answers
    return out


def by_leader(
    topics: Mapping[str, TopicMetadata], partitions: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Return the partitions that each broker leads; those without a leader are left out."""
    nodes: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        if (node := leader_of(topics, tp)) >= 0:
            nodes.setdefault(node, []).append(tp)
    return nodes


def partitions_of(
    topics: Mapping[str, TopicMetadata], names: Iterable[str] | None = None
) -> list[TopicPartition]:
    """Return the partitions of some topics, by default of all."""
    return [TopicPartition(n, p) for n in (topics if names is None else names) for p in topics[n].leaders]


def leader_of(topics: Mapping[str, TopicMetadata], tp: TopicPartition) -> int:
    """Return the id of a partition's leader, or −1 without a leader."""
    topic = topics.get(tp.topic)
    leader = topic.leaders.get(tp.partition) if topic is not None else None
    return leader.node if leader is not None else NO_LEADER


def grouped(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return partition numbers by topic, as requests have them, sorted by topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return sorted(by_topic.items())


class Deleted(NamedTuple):
    """The result of DeleteRecords for one partition."""

    error: int
    """Kafka's error code. The leader may still have deleted the records."""
    start: int
    """First offset that is left on every live replica, −1 after an error."""


async def delete_records(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Mapping[TopicPartition, int],
    *,
    timeout_ms: int = _DELETE_MS,
) -> dict[TopicPartition, Deleted]:
    """Delete all records before an offset of each partition. Repeated, it deletes nothing more.

    An answer without error means that every replica on a live broker has done so. It is not durable: brokers
    write the new beginning down every ``log.flush.start.offset.checkpoint.interval.ms``, a minute by default.

    :param topics: metadata of the topics; a partition without a leader gets LEADER_NOT_AVAILABLE
    :param wanted: partition → first offset to keep
    :param timeout_ms: how long a leader waits for the other replicas
    """

    async def ask(node: int, led: list[TopicPartition]) -> dict[TopicPartition, Deleted]:
        topic_of = DeleteRecordsRequest.DeleteRecordsTopic

        def part(topic: str, number: int) -> Any:
            before = wanted[TopicPartition(topic, number)]
            return topic_of.DeleteRecordsPartition(partition_index=number, offset=before)

        parts = [topic_of(name=t, partitions=[part(t, n) for n in numbers]) for t, numbers in grouped(led)]
        request = DeleteRecordsRequest(topics=parts, timeout_ms=timeout_ms)
        try:
            answer = await cluster.send(request, node, timeout_ms=timeout_ms + _ANSWER_MS)
        except RawError:  # this broker alone does not answer
            return {tp: Deleted(codes.REQUEST_TIMED_OUT, NO_LEADER) for tp in led}
        return by_partition(answer, lambda p: Deleted(p.error_code, p.low_watermark))

    out = dict.fromkeys(wanted, Deleted(codes.LEADER_NOT_AVAILABLE, NO_LEADER))
    return out | await ask_leaders(cluster, topics, wanted, ask)


async def delete_topics_by_id(cluster: RawCluster, ids: Iterable[UUID]) -> dict[UUID, int]:
    """Delete topics by their ids (KIP-516), so that a later topic of the same name stays.

    :returns: Kafka's error codes, 0 also for a topic that was gone before
    :raises RawError: no answer
    """
    topic_ids = list(ids)
    if not topic_ids:
        return {}
    topics = [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=i) for i in topic_ids]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=_DELETE_MS, min_version=6)
    answer = await cluster.send(request, timeout_ms=_DELETE_MS + _ANSWER_MS)
    errors = {UUID(str(t.topic_id)): int(t.error_code) for t in answer.responses}
    return {i: 0 if errors[i] == codes.UNKNOWN_TOPIC_ID else errors[i] for i in topic_ids}
