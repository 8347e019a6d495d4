"""Topics of a cluster: look, create, widen, configure, and where their logs begin and end.

Calls that change several topics return the failures by topic, so that one refused topic stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeVar
from uuid import UUID

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tenacity import Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_fixed

from drkit.clock import monotonic
from drkit.counted import counted
from drkit.errors import DrkitError, Failed, NotAuthorized, raise_first, raise_refused
from drkit.kafka import codes
from drkit.kafka.admin import CALL_SECONDS, Cluster
from drkit.kafka.raw import RawCluster, RawError, ask_once
from drkit.kafka.requests import TopicMetadata, metadata, metadata_of_all
from drkit.model import TopicPartition

MOST_RECORDS: Final = 5_000
"""Records of a controller's metadata log that one request may need.

A KRaft controller executes a request as one batch of at most 10,000 of them, including some of its own
(``QuorumController.MAX_RECORDS_PER_USER_OP``), and rejects a larger request as a policy violation. 300 topics
of 32 partitions with settings exceed that.
"""
_REPLICAS: Final = 3
_KEEPING: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms")
"""With other values records of drkit's disappear, or what hides them does."""
_SET: Final = ("delete.retention.ms", "message.timestamp.type")
"""Set on an existing topic where drkit may; the second was not set by earlier versions of drkit."""
ALL_KEPT: Final = {
    "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}  # fmt: skip
"""Settings of a topic of drkit's own that keeps every record."""
_APPEAR_SECONDS: Final = 20.0
BROKER_DEFAULT: Final = -1
"""As replication factor or number of partitions: the brokers' default (KIP-464)."""
T = TypeVar("T")


def in_parts(items: Iterable[T], weight: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield items in order, in parts of at most this weight; an item is not divided."""
    part: list[T] = []
    size = 0
    for item in items:
        more = weight(item)
        if part and size + more > most:
            yield part
            part, size = [], 0
        part.append(item)
        size += more
    if part:
        yield part


_UNKNOWN: Final = KafkaError.UNKNOWN_TOPIC_OR_PART
_SETTLE_SECONDS: Final = 5.0
_SETTLING: Final = frozenset({
    KafkaError._NOENT,  # noqa: SLF001  the constant's only name
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001  likewise
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  likewise
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    _UNKNOWN,
})  # fmt: skip
_PAUSE_SECONDS: Final = 0.05
_PATIENCE_MS: Final = 10_000
"""Timeout per broker: one may be frozen, then another is asked."""


class ConfigValue(NamedTuple):
    """A setting of a topic or broker and where its value comes from."""

    value: str | None
    source: str
    """Kafka's name for the source: DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG and so on."""

    @property
    def is_set_on_topic(self) -> bool:
        """Return whether the value is set on this topic; all else is inherited."""
        return self.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.name


class TopicPlan(NamedTuple):
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}


def topic_names(cluster: Cluster) -> list[str]:
    """Return all topics that drkit's principal may see, sorted."""
    found = cluster.call("list topics", cluster.admin.list_topics, timeout=CALL_SECONDS)
    return sorted(found.topics)


def describe_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicMetadata]:
    """Return ids, partitions and replicas. Topics that do not exist are left out.

    Not by the admin client, which never frees the id of a topic (docs/internal/upstream.md).
    """
    requested = sorted(set(names))
    if not requested:
        return {}

    async def ask(raw: RawCluster) -> dict[str, TopicMetadata]:
        deadline = monotonic() + CALL_SECONDS
        while True:
            try:
                return await metadata(raw, requested, timeout_ms=_PATIENCE_MS)
            except RawError:
                if monotonic() > deadline:
                    raise
            await raw.loop.sleep(_PAUSE_SECONDS)

    topics = ask_once(cluster.settings, "topics", ask, what="describe topics")
    for name, topic in topics.items():
        if topic.error not in {KafkaError.NO_ERROR, _UNKNOWN}:
            raise cluster.error(KafkaError(topic.error), "describe a topic", name)
    return {name: topic for name, topic in topics.items() if not topic.error}


def topic_configs(cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, ConfigValue]]:
    """Return every setting of some topics, set or inherited. Topics that do not exist are left out."""
    wanted = [ConfigResource(ResourceType.TOPIC, n) for n in sorted(set(names))]
    return _configs(cluster, wanted)


def broker_config(cluster: Cluster, broker: int | None = None) -> dict[str, ConfigValue]:
    """Return every setting of a broker, by default of the one with the lowest id."""
    broker_id = str(cluster.brokers[0].id if broker is None else broker)
    return _configs(cluster, [ConfigResource(ResourceType.BROKER, broker_id)])[broker_id]


def create_topics(cluster: Cluster, plans: Iterable[TopicPlan]) -> dict[str, DrkitError]:
    """Create topics; one that exists already is no failure. Returns failures by topic."""
    weights = {_new(p): 1 + len(p.configs) + p.partitions for p in plans}
    fine = KafkaError.TOPIC_ALREADY_EXISTS
    return _change(cluster, cluster.admin.create_topics, "create a topic", weights, fine)


def create_partitions(cluster: Cluster, totals: Mapping[str, int]) -> dict[str, DrkitError]:
    """Add partitions to topics: topic → new total. Returns failures by topic."""
    weights = {NewPartitions(name, total): total for name, total in totals.items()}
    return _change(cluster, cluster.admin.create_partitions, "add partitions to a topic", weights)


def alter_topic_configs(
    cluster: Cluster, changes: Mapping[str, Mapping[str, str | None]]
) -> dict[str, DrkitError]:
    """Set settings of topics, or with None reset them to the inherited value (KIP-339).

    Other settings stay unchanged. Returns failures by topic.
    """
    weights = {
        ConfigResource(
            ResourceType.TOPIC, name, incremental_configs=[_entry(k, v) for k, v in settings.items()]
        ): len(settings)
        for name, settings in changes.items()
        if settings
    }
    what = "alter the configuration of a topic"
    return _change(cluster, cluster.admin.incremental_alter_configs, what, weights)


def refuse_unset(code: str, cluster: Cluster, refused: Mapping[str, DrkitError], done: str) -> None:
    """Raise Failed with a code if topics refused their settings. `done`: what was to be done with them."""
    raise_refused(code, cluster.alias, refused, topics=counted(len(refused), "topic"), done=done)


def delete_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, DrkitError]:
    """Delete topics; one that does not exist is no failure. Returns failures by topic."""
    return _change(cluster, cluster.admin.delete_topics, "delete a topic", dict.fromkeys(names, 1), _UNKNOWN)


def list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: Literal["earliest", "latest"],
    *,
    committed: bool = False,
) -> dict[TopicPartition, int]:
    """Return start or end offsets; a partition that is new or changes its leader is retried for 5 s.

    :param committed: the end is the last stable offset, not the high watermark
    """
    offsets: dict[TopicPartition, int] = {}
    wanted = {(p.topic, p.partition): p for p in partitions}
    if not wanted:
        return offsets
    spec = OffsetSpec.earliest() if which == "earliest" else OffsetSpec.latest()
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    options = {"isolation_level": level, "request_timeout": CALL_SECONDS}
    for attempt in Retrying(
        retry=retry_if_exception(_settles),
        stop=stop_after_delay(_SETTLE_SECONDS),
        wait=wait_fixed(0.2),
        reraise=True,
    ):
        with attempt:
            # librdkafka has old metadata. Not in `before_sleep`: that would hold the client in a cycle.
            if attempt.retry_state.attempt_number > 1:
                cluster.call("list topics", cluster.admin.list_topics, timeout=CALL_SECONDS)
            asked = {ConfluentPartition(*at): spec for at, tp in wanted.items() if tp not in offsets}
            futures = cluster.call("list offsets", cluster.admin.list_offsets, asked, **options)
            for key, future in futures.items():
                tp = wanted[key.topic, key.partition]
                offsets[tp] = int(cluster.wait(future, "list offsets", str(tp)).offset)
    return offsets


def _settles(error: BaseException) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in _SETTLING


def _configs(cluster: Cluster, resources: list[ConfigResource]) -> dict[str, dict[str, ConfigValue]]:
    if not resources:
        return {}
    futures = cluster.call(
        "describe configs", cluster.admin.describe_configs, resources, request_timeout=CALL_SECONDS
    )
    return {
        resource.name: {
            name: ConfigValue(entry.value, ConfigSource(entry.source).name)
            for name, entry in cluster.wait(future, "read the configuration", resource.name).items()
        }
        for resource, future in futures.items()
        if not cluster.refused_with(_UNKNOWN, future, "read the configuration", resource.name)
    }


def _new(plan: TopicPlan) -> NewTopic:
    return NewTopic(plan.name, plan.partitions, plan.replication_factor, config=dict(plan.configs))


def _entry(name: str, value: str | None) -> ConfigEntry:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)


def _change(
    cluster: Cluster,
    function: Callable[..., Mapping[Any, Future[Any]]],
    what: str,
    weights: Mapping[Any, int],
    fine: int | None = None,
) -> dict[str, DrkitError]:
    """Change topics, as many in one request as a controller takes; return failures by topic.

    :param weights: change → approximate number of metadata log records
    :param fine: Kafka's code of an error that is no failure
    """
    failed: dict[str, DrkitError] = {}
    for changes in in_parts(weights, weights.__getitem__, MOST_RECORDS):
        futures = cluster.call(what, function, changes, request_timeout=CALL_SECONDS)
        for item, future in futures.items():
            name = getattr(item, "name", item)
            try:
                if fine is None or not cluster.refused_with(fine, future, what, name):
                    cluster.wait(future, what, name)
            except DrkitError as error:
                failed[name] = error
    return failed


def one_by_one(
    ask: Callable[[Cluster, Iterable[str]], dict[str, T]], cluster: Cluster, names: Iterable[str]
) -> tuple[dict[str, T], dict[str, DrkitError]]:
    """Return answers and refusals: ask for all topics at once, and for each alone if one is forbidden."""
    names = list(names)
    try:
        return ask(cluster, names), {}
    except NotAuthorized:
        answers: dict[str, T] = {}
        refused: dict[str, DrkitError] = {}
        for name in names:
            try:
                answers |= ask(cluster, [name])
            except NotAuthorized as error:
                refused[name] = error
        return answers, refused


def ensure_own_topic(
    cluster: Cluster,
    name: str,
    configs: Mapping[str, str],
    partitions: int = 1,
    *,
    optional: Mapping[str, str] = MappingProxyType({}),
    described: TopicMetadata | None = None,
) -> TopicMetadata:
    """Return one of drkit's own topics, created where it is missing.

    It gets three replicas, or one for each of fewer brokers: with three a record counts when two have it. A
    topic with another cleanup policy or retention is refused, if drkit may describe it and not correct it.

    :param optional: settings that some services refuse; the topic is correct without them
    :param described: the topic as it was just described, or None to ask for it
    :raises DrkitError: it cannot be created, or is refused
    """
    topic = described or describe_topics(cluster, [name]).get(name)
    if topic is None:
        replicas = min(_REPLICAS, len(cluster.brokers))
        needed = {"min.insync.replicas": "2" if replicas == _REPLICAS else "1", **configs}
        plan = TopicPlan(name, partitions, replicas or BROKER_DEFAULT, {**needed, **optional})
        if (failed := create_topics(cluster, [plan])) and optional:
            failed = create_topics(cluster, [plan._replace(configs=needed)])
        raise_first(failed)
        topic = appeared(cluster, name)
    with suppress(NotAuthorized):
        existing = topic_configs(cluster, [name]).get(name, {})
        others = {s: v for s, v in configs.items() if s in existing and existing[s].value != v}
        added: dict[str, str | None] = {s: others[s] for s in _SET if s in others}
        if added and not alter_topic_configs(cluster, {name: added}):
            others = {s: v for s, v in others.items() if s not in added}
        if refused := [s for s in _KEEPING if s in others]:
            evidence = ", ".join(f"{setting} = {existing[setting].value}" for setting in refused)
            settings = ",".join(f"{setting}={value}" for setting, value in others.items())
            where = f"{name} on {cluster.alias}"
            raise Failed("own_topic_settings", where=where, evidence=evidence, topic=name, settings=settings)
    return topic


def appeared(cluster: Cluster, name: str) -> TopicMetadata:
    """Return a topic that was just created, as soon as the cluster lists it.

    :raises Failed: the cluster does not list it within 20 s
    """
    patient = Retrying(
        retry=retry_if_result(lambda topic: topic is None),
        stop=stop_after_delay(_APPEAR_SECONDS),
        wait=wait_fixed(_PAUSE_SECONDS),
        retry_error_callback=lambda _: None,
    )
    topic: TopicMetadata | None = patient(lambda: describe_topics(cluster, [name]).get(name))
    if topic is None:
        raise Failed("new_topic_missing", where=f"{name} on {cluster.alias}")
    return topic


async def not_deleted(cluster: RawCluster, topics: Collection[str]) -> dict[str, TopicMetadata]:
    """Return those of some topics that not every broker reports as unknown.

    A listing proves nothing: it lacks topics that drkit may not see. For a named one, brokers answer
    TOPIC_AUTHORIZATION_FAILED.
    """
    try:
        answers = await metadata_of_all(cluster, topics) if topics else {}
    except RawError:  # one broker does not answer, others may
        return dict.fromkeys(topics, TopicMetadata(codes.NO_ANSWER, UUID(int=0), {}))
    unknown = codes.UNKNOWN_TOPIC_OR_PARTITION
    known = {n: [t for t in each if t.error != unknown] for n, each in answers.items()}
    return {n: min(each, key=lambda t: t.error != codes.NONE) for n, each in known.items() if each}
