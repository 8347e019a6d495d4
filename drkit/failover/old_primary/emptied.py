"""Create missing topics of the old primary, and empty topics one by one within a copy limit.

A topic that was emptied is nowhere else until the reverse flow has copied it again: what the new primary
loses in that time is lost. With a limit the next topic is emptied when it fits into it, together with what
is not copied of the topics before it. A topic that is larger than the limit goes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple

from drkit.config import FlowSettings
from drkit.counted import first_of, size_text
from drkit.errors import Failed, Refused, raise_first
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.emptying.empty import allow_deletion, compact_only, empty, not_empty, put_back
from drkit.flow_state.records import IncompleteRecord
from drkit.journal.machine import RETURN, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import TopicMetadata, metadata, volumes
from drkit.kafka.topics import TopicPlan, create_partitions, create_topics, describe_topics
from drkit.model import TopicPartition
from drkit.next_command import typed
from drkit.status.lag.source import Ends, ends_of
from drkit.status.look import StatusCollector
from drkit.status.model import PartitionStatus
from drkit.topology.topic_configs import PASSIVE


def effect_of(topic: str) -> str:
    """Return the effect's name in the journal."""
    return f"empty {topic}"


def is_emptied(context: Context, topic: str) -> bool:
    """Return whether this run has begun to empty a topic."""
    return effect_of(topic) in context.effects(StepName.BEGIN)


def empty_topic(context: Context, topic: str, up_to: Mapping[int, int]) -> None:
    """Empty partitions of a topic of the old primary, and prove it. Repeated, it changes nothing more.

    :param up_to: by partition, the offset before which everything is deleted
    :raises Failed: it is not empty
    :raises DrkitError: the old primary does not answer, or refuses
    """
    admin = Cluster.connect(context.source_settings)
    known = context.effects(StepName.BEGIN).get(effect_of(topic))
    before = known["intent"]["settings"] if known is not None else compact_only(admin, [topic])
    source = context.source()
    assert source is not None  # noqa: S101  the earlier look has asked it
    offsets = {TopicPartition(topic, p): offset for p, offset in up_to.items()}
    details: dict[str, Any] = {"up_to": {str(p): o for p, o in up_to.items()}, "settings": before}
    with context.effect(StepName.BEGIN, effect_of(topic), **details) as outcome:
        allow_deletion(admin, before)
        context.run(empty, source, offsets)
        put_back(admin, before)
        outcome["emptied"] = sorted(details["up_to"])


def refuse_risen(context: Context, up_to: Mapping[TopicPartition, int]) -> None:
    """Refuse to continue after killed brokers have brought deleted records back. Raises Failed."""
    source = context.source()
    if source is None:
        return
    risen: dict[TopicPartition, int] = context.run(not_empty, source, up_to)
    if risen:
        evidence = ", ".join(f"{tp} begins at {start}, not {up_to[tp]}" for tp, start in risen.items())
        where = context.flow.source
        raise Failed("deleted_records_back", where=where, evidence=evidence, command=RETURN.command)


def note_incomplete(context: Context, topic: str) -> bool:
    """Record that a topic was emptied and is not copied again; return False if it was not emptied.

    Its compaction, if it has one, is put back.

    :raises DrkitError: a cluster does not answer
    """
    known = context.effects(StepName.BEGIN).get(effect_of(topic))
    if known is None:
        return False
    put_back(Cluster.connect(context.source_settings), known["intent"]["settings"])
    emptied = {int(p): offset for p, offset in known["intent"]["up_to"].items()}
    context.state.put(IncompleteRecord(context.run_id, context.wall(), emptied), topic)
    return True


_PAUSE_SECONDS: Final = 2.0
_MOST_PAUSES: Final = 10
"""The most pauses between two reads of the status: the longer a read takes, the more."""
STALLED_SECONDS: Final = 120.0
"""A replicator that was just started, or that replaces another one, begins to copy within this time."""


class Size(NamedTuple):
    """The size of a partition."""

    bytes: int
    offsets: int

    def of(self, records: int) -> int:
        """Return about how many bytes some of its records have; all of them if that is unknown."""
        return min(self.bytes, -(-self.bytes * records // self.offsets)) if self.offsets else self.bytes


def wait_for_copy(context: Context, back: FlowSettings, topic: str, before: Collection[str]) -> None:
    """Wait until a topic may be emptied. One that is emptied already, in a run that is resumed, never waits.

    :param back: the reverse flow
    :param before: topics that were emptied, and may be copied again
    :raises Refused: the copy stalls
    :raises DrkitError: the new primary does not answer
    """
    limit = context.request.copy_limit
    if not limit or not before or is_emptied(context, topic):
        return
    names = context.scope.topics
    sizes = _sizes(context, [names[t] for t in (topic, *before)])
    own_bytes = sum(size.bytes for tp, size in sizes.items() if tp.topic == names[topic])
    with closing(StatusCollector(context.settings, back, groups=False)) as collector:
        least, since = None, context.clock()
        while True:
            began = context.clock()
            left = left_of(collector.look().partitions, [names[t] for t in before], sizes)
            total = sum(left.values())
            if not total or total + own_bytes <= limit:
                return
            if least is None or total < least:
                least, since = total, context.clock()
            if context.clock() - since > STALLED_SECONDS:
                raise Refused(
                    "emptied_not_copied_again",
                    where=back.name,
                    evidence=f"for {STALLED_SECONDS:g} s {size_text(total)} of {first_of(left)} are on"
                    f" {context.flow.target} alone; --copy-limit {limit} allows no other topic",
                    copy=typed("drkit", "replicate", "--flow", back.name),
                    command=RETURN.command,
                )
            text = f"{topic} waits: {size_text(total)} of {first_of(left)} are on {back.source} alone"
            context.tell(StepProgress(StepName.BEGIN, text, {"bytes": total, "limit": limit}))
            # Reading the status of many partitions slows the copy. Each pause keeps the lock.
            for _ in range(min(_MOST_PAUSES, 1 + round(context.clock() - began))):
                context.pause(_PAUSE_SECONDS)


def _sizes(context: Context, topics: Collection[str]) -> dict[TopicPartition, Size]:
    known: dict[str, TopicMetadata] = context.run(metadata, context.target, sorted(topics))
    volume = context.run(volumes, context.target, known)
    ends = context.run(ends_of, context.target, known, sorted(topics))
    return {
        tp: size_of(ends.get(tp), volume.get(tp), context.request.copy_limit)
        for tp in (TopicPartition(name, number) for name, topic in known.items() for number in topic.leaders)
    }


def size_of(ends: Ends | None, volume: int | None, limit: int) -> Size:
    """Return a partition's size; one that brokers hide counts as all that is allowed: it goes alone."""
    if ends is not None and ends.start >= ends.end:
        return Size(volume or 0, 0)
    return Size(limit if volume is None else volume, 0 if ends is None else ends.end - ends.start)


def left_of(
    partitions: Iterable[PartitionStatus], topics: Collection[str], sizes: Mapping[TopicPartition, Size]
) -> dict[str, int]:
    """Return the bytes of topics that are not copied again; all of a partition if that is unknown.

    Where waiting records are counted, but not read, their size is taken from their partition's average.
    """
    bytes_of = {tp: size.bytes for tp, size in sizes.items() if tp.topic in topics}
    for p in partitions:
        tp = TopicPartition(p.topic, p.partition)
        if p.topic in topics and p.records is not None:
            size = sizes.get(tp, Size(0, 0))
            bytes_of[tp] = p.bytes if p.bytes is not None else size.of(p.records)
    by_topic = {name: sum(size for tp, size in bytes_of.items() if tp.topic == name) for name in topics}
    return {name: size for name, size in by_topic.items() if size}


_CREATE: Final = "create"
_GROW: Final = "grow"


def create_missing(context: Context, topic: str) -> None:
    """Create a topic on the old primary where it is missing, and the partitions that are missing.

    It gets as many as on the new primary: it may have been deleted, or recreated with fewer partitions.
    The settings of a new one are those of a passive side; the reverse flow's sync adds the others.

    :raises DrkitError: a cluster does not answer, or refuses
    """
    there = Cluster.connect(context.source_settings)
    known = describe_topics(there, [topic])
    name = context.scope.topics[topic]
    partitions = len(describe_topics(context.target_admin(), [name])[name].leaders)
    if topic not in known:
        with context.effect(StepName.BEGIN, f"{_CREATE} {topic}", partitions=partitions):
            raise_first(create_topics(there, [TopicPlan(topic, partitions, configs=dict(PASSIVE))]))
    elif len(known[topic].leaders) < partitions:
        with context.effect(StepName.BEGIN, f"{_GROW} {topic}", partitions=partitions):
            raise_first(create_partitions(there, {topic: partitions}))
