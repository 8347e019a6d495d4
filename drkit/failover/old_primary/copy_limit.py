"""How much the new primary alone may have while topics of the old one are emptied.

A topic that was emptied is nowhere else until the reverse flow has copied it again: what the new primary
loses in that time is lost. With a limit the next topic is emptied when it fits into it, together with what
is not copied of the topics before it. A topic that is larger than the limit goes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Final

from drkit.config import FlowSettings
from drkit.counted import first_of, size_text
from drkit.errors import Refused
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import RETURN, StepName
from drkit.kafka.requests import metadata
from drkit.model import TopicPartition
from drkit.next_command import typed
from drkit.status.look import StatusCollector
from drkit.status.pair.reading import volumes

_PAUSE_SECONDS: Final = 2.0
STALLED_SECONDS: Final = 120.0
"""A replicator that was just started, or that replaces another one, begins to copy within this time."""


def wait_for_copy(context: Context, back: FlowSettings, topic: str, before: Collection[str]) -> None:
    """Wait until a topic may be emptied.

    :param back: the reverse flow
    :param topic: by its name on the old primary
    :param before: topics that were emptied, and may be copied again
    :raises Refused: what is not copied stays as much as it is
    :raises DrkitError: the new primary does not answer
    """
    limit = context.request.copy_limit
    if not limit or not before:
        return
    names = context.scope.topics
    sizes = _sizes(context, [names[t] for t in (topic, *before)])
    with closing(StatusCollector(context.settings, back, groups=False)) as collector:
        least, since = None, context.clock()
        while True:
            left = _left(collector, [names[t] for t in before], sizes)
            total = sum(left.values())
            if not total or total + sizes[names[topic]] <= limit:
                return
            if least is None or total < least:
                least, since = total, context.clock()
            if context.clock() - since > STALLED_SECONDS:
                raise _stalled(context, back, left)
            told = f"{topic} waits: {size_text(total)} of {first_of(left)} are on {back.source} alone"
            context.tell(StepProgress(StepName.BEGIN, told, {"bytes": total, "limit": limit}))
            context.pause(_PAUSE_SECONDS)


def _sizes(context: Context, topics: Collection[str]) -> dict[str, int]:
    """The bytes of topics of the new primary."""
    found: dict[TopicPartition, int] = context.run(
        volumes, context.target, context.run(metadata, context.target, sorted(topics))
    )
    return {name: sum(size for at, size in found.items() if at.topic == name) for name in topics}


def _left(collector: StatusCollector, topics: Collection[str], sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes of topics that are not copied again; all of one of which that is unknown."""
    known = {t.topic: t for t in collector.look().topics}
    found = {}
    for name in topics:
        lag = known.get(name)
        if lag is None or lag.records is None:
            found[name] = sizes[name]
        elif lag.records:
            found[name] = sizes[name] if lag.bytes is None else lag.bytes
    return found


def _stalled(context: Context, back: FlowSettings, left: Mapping[str, int]) -> Refused:
    copy = typed("drkit", "replicate", "--flow", back.name)
    return Refused(
        "topics that were emptied are not copied again",
        where=back.name,
        evidence=f"for {STALLED_SECONDS:g} s {size_text(sum(left.values()))} of {first_of(left)} are on"
        f" {context.flow.target} alone; --copy-limit {context.request.copy_limit} allows no other topic",
        hint=f"let {copy} run; then {RETURN.command} --resume, with another --copy-limit if it is too low",
    )
