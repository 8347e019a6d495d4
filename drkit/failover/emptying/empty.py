"""Empty partitions up to an offset, and find those that are not empty up to there.

DeleteRecords is not durable at once: killed within a minute, brokers come back with the deleted records. So
code that depends on it asks :func:`not_empty` again, right before. A second emptying changes nothing,
also where records were appended meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from drkit.clock import boottime
from drkit.counted import first_of
from drkit.errors import Failed, Refused, raise_first
from drkit.kafka import codes
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import EARLIEST, Deleted, delete_records, listed, metadata
from drkit.kafka.topics import alter_topic_configs, topic_configs
from drkit.model import TopicPartition

Settings = Mapping[str, Mapping[str, str | None]]
"""Topic → setting → value, or None if the topic has no value of its own."""

_POLICY: Final = "cleanup.policy"
_WHILE_EMPTIED: Final[Mapping[str, str | None]] = {
    _POLICY: "compact,delete", "retention.ms": "-1", "retention.bytes": "-1",
}  # fmt: skip
"""With a policy of compaction alone brokers refuse DeleteRecords; with these nothing expires meanwhile."""
_COMPACT: Final = "compact"
_HINTS: Final[Mapping[int, str]] = {
    codes.POLICY_VIOLATION: "a topic that is only compacted takes it with cleanup.policy=compact,delete",
    codes.OFFSET_OUT_OF_RANGE: "it ends before that offset, so it lost records: compare both sides again",
    codes.TOPIC_AUTHORIZATION_FAILED: "grant drkit's principal DELETE on the topic, then continue",
}
_REFUSED: Final = frozenset({codes.OFFSET_OUT_OF_RANGE, codes.TOPIC_AUTHORIZATION_FAILED})
_POLICY_SECONDS: Final = 5.0
"""A changed policy reaches each leader with the metadata, a moment after the answer to the change."""
_PATIENCE_SECONDS: Final = 60.0
"""A frozen leader takes half of it before its successor is asked."""
_LOOK_MS: Final = 5000
_PAUSE_SECONDS: Final = 0.2
_UNKNOWN: Final = -1


async def not_empty(cluster: RawCluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the partitions whose log begins before an offset, and where it begins.

    :param cluster: connected
    :param wanted: offset by partition up to which it should be empty
    :raises Failed: a leader does not answer
    :raises RawError: the cluster does not
    """
    if not wanted:
        return {}
    topics = await metadata(cluster, sorted({tp.topic for tp in wanted}))
    starts = await listed(cluster, topics, wanted, EARLIEST)
    if silent := wanted.keys() - starts.keys():
        evidence = first_of(f"{tp}: its leader does not answer" for tp in sorted(silent))
        raise Failed("emptied_starts_unknown", where=cluster.alias, evidence=evidence)
    return {tp: starts[tp] for tp, offset in sorted(wanted.items()) if starts[tp] < offset}


async def empty(cluster: RawCluster, wanted: Mapping[TopicPartition, int]) -> None:
    """Delete everything before an offset of each partition, and prove that each begins there or later.

    Waits for a leader that is moving, and for replicas on live brokers.

    :param cluster: connected
    :param wanted: offset by partition, at most its end
    :raises Refused: a topic's policy is compaction alone (see :func:`compact_only`), drkit may not delete
        records there, or a partition ends before its offset
    :raises Failed: a leader or a replica does not do it in time; a part may be empty
    :raises RawError: the cluster does not answer
    """
    began = boottime()
    while True:
        topics = await metadata(cluster, sorted({tp.topic for tp in wanted}))
        starts = await listed(cluster, topics, wanted, EARLIEST, timeout_ms=_LOOK_MS)
        remaining = {tp: offset for tp, offset in wanted.items() if starts.get(tp, _UNKNOWN) < offset}
        if not remaining:
            return
        answers = await delete_records(cluster, topics, remaining)
        failed = {tp: answer for tp, answer in answers.items() if answer.error}
        waited = boottime() - began
        final = _REFUSED if waited < _POLICY_SECONDS else _HINTS.keys()
        if refused := {tp: a for tp, a in failed.items() if a.error in final}:
            evidence = first_of(_describe(tp, wanted[tp], answer) for tp, answer in sorted(refused.items()))
            hint = _HINTS[refused[min(refused)].error]
            raise Refused("empty_refused", where=cluster.alias, evidence=evidence, hint=hint)
        if waited > _PATIENCE_SECONDS:
            evidence = first_of(_describe(tp, wanted[tp], answers.get(tp)) for tp in sorted(remaining))
            raise Failed("not_emptied", where=cluster.alias, evidence=evidence)
        if failed:
            await cluster.loop.sleep(_PAUSE_SECONDS)


def compact_only(admin: Cluster, topics: Iterable[str]) -> Settings:
    """Return topics that refuse DeleteRecords, each with the settings to restore after it.

    The caller notes them before :func:`allow_deletion`, and gives them to :func:`put_back`.

    :raises DrkitError: the cluster does not answer
    """
    configs = topic_configs(admin, sorted(set(topics)))
    return {
        topic: {name: values[name].value if values[name].is_set_on_topic else None for name in _WHILE_EMPTIED}
        for topic, values in configs.items()
        if values[_POLICY].value == _COMPACT
    }


def allow_deletion(admin: Cluster, before: Settings) -> None:
    """Let brokers delete records of :func:`compact_only` topics. Raises DrkitError if refused."""
    _alter(admin, dict.fromkeys(before, _WHILE_EMPTIED))


def put_back(admin: Cluster, before: Settings) -> None:
    """Restore the settings of :func:`compact_only` topics; repeatable. Raises DrkitError if refused."""
    _alter(admin, before)


def _alter(admin: Cluster, settings: Settings) -> None:
    raise_first(alter_topic_configs(admin, {topic: dict(values) for topic, values in settings.items()}))


def _describe(tp: TopicPartition, offset: int, answer: Deleted | None) -> str:
    error = answer.error if answer is not None else 0
    return f"{tp} up to {offset}: {codes.error_name(error) if error else 'it still begins earlier'}"
