"""How much the new primary alone may have while topics of the old one are emptied.

A topic that was emptied is nowhere else until the reverse flow has copied it again: what the new primary
loses in that time is lost. With a limit the next topic is emptied when it fits into it, together with what
is not copied of the topics before it. A topic that is larger than the limit goes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import Final, NamedTuple

from drkit.config import FlowSettings
from drkit.counted import first_of, size_text
from drkit.errors import Refused
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import RETURN, StepName
from drkit.failover.old_primary.emptied import is_emptied
from drkit.kafka.requests import TopicMetadata, metadata
from drkit.model import TopicPartition
from drkit.next_command import typed
from drkit.status.lag.source import Ends, ends_of
from drkit.status.look import StatusCollector
from drkit.status.model import PartitionStatus
from drkit.status.pair.reading import volumes

_PAUSE_SECONDS: Final = 2.0
_MOST_PAUSES: Final = 10
"""Between two looks; there are more the longer a look takes."""
STALLED_SECONDS: Final = 120.0
"""A replicator that was just started, or that replaces another one, begins to copy within this time."""


class Size(NamedTuple):
    """How large a partition is."""

    bytes: int
    offsets: int

    def of(self, records: int) -> int:
        """The bytes of some of its records, about; all where that is unknown."""
        return min(self.bytes, -(-self.bytes * records // self.offsets)) if self.offsets else self.bytes


def wait_for_copy(context: Context, back: FlowSettings, topic: str, before: Collection[str]) -> None:
    """Wait until a topic may be emptied. One that is emptied already, in a run that is resumed, never waits.

    :param back: the reverse flow
    :param topic: by its name on the old primary
    :param before: topics that were emptied, and may be copied again
    :raises Refused: what is not copied stays as much as it is
    :raises DrkitError: the new primary does not answer
    """
    limit = context.request.copy_limit
    if not limit or not before or is_emptied(context, topic):
        return
    names = context.scope.topics
    sizes = _sizes(context, [names[t] for t in (topic, *before)])
    mine = sum(size.bytes for at, size in sizes.items() if at.topic == names[topic])
    with closing(StatusCollector(context.settings, back, groups=False)) as collector:
        least, since = None, context.clock()
        while True:
            began = context.clock()
            left = left_of(collector.look().partitions, [names[t] for t in before], sizes)
            total = sum(left.values())
            if not total or total + mine <= limit:
                return
            if least is None or total < least:
                least, since = total, context.clock()
            if context.clock() - since > STALLED_SECONDS:
                raise _stalled(context, back, left)
            told = f"{topic} waits: {size_text(total)} of {first_of(left)} are on {back.source} alone"
            context.tell(StepProgress(StepName.BEGIN, told, {"bytes": total, "limit": limit}))
            # A look at many partitions takes of the link that copies. Each pause keeps the lock.
            for _ in range(min(_MOST_PAUSES, 1 + round(context.clock() - began))):
                context.pause(_PAUSE_SECONDS)


def _sizes(context: Context, topics: Collection[str]) -> dict[TopicPartition, Size]:
    """The sizes of the partitions of topics of the new primary."""
    known: dict[str, TopicMetadata] = context.run(metadata, context.target, sorted(topics))
    volume = context.run(volumes, context.target, known)
    ends = context.run(ends_of, context.target, known, sorted(topics))
    return {
        at: size_of(ends.get(at), volume.get(at), context.request.copy_limit)
        for at in (TopicPartition(name, number) for name, topic in known.items() for number in topic.leaders)
    }


def size_of(ends: Ends | None, volume: int | None, limit: int) -> Size:
    """The size of a partition.

    One that brokers do not tell, as without the right to DESCRIBE the cluster, counts as all that is allowed:
    its topic goes alone.
    """
    if ends is not None and ends.start >= ends.end:
        return Size(volume or 0, 0)
    return Size(limit if volume is None else volume, 0 if ends is None else ends.end - ends.start)


def left_of(
    partitions: Iterable[PartitionStatus], topics: Collection[str], sizes: Mapping[TopicPartition, Size]
) -> dict[str, int]:
    """Bytes of topics that are not copied again; all of a partition of which that is unknown.

    Where the records that wait are counted, but not read, the average of their partition stands for them.
    """
    found = {at: size.bytes for at, size in sizes.items() if at.topic in topics}
    for p in partitions:
        at = TopicPartition(p.topic, p.partition)
        if p.topic in topics and p.records is not None:
            size = sizes.get(at, Size(0, 0))
            found[at] = p.bytes if p.bytes is not None else size.of(p.records)
    by_topic = {name: sum(size for at, size in found.items() if at.topic == name) for name in topics}
    return {name: size for name, size in by_topic.items() if size}


def _stalled(context: Context, back: FlowSettings, left: Mapping[str, int]) -> Refused:
    copy = typed("drkit", "replicate", "--flow", back.name)
    return Refused(
        "emptied_not_copied_again",
        where=back.name,
        evidence=f"for {STALLED_SECONDS:g} s {size_text(sum(left.values()))} of {first_of(left)} are on"
        f" {context.flow.target} alone; --copy-limit {context.request.copy_limit} allows no other topic",
        copy=copy,
        command=RETURN.command,
    )
