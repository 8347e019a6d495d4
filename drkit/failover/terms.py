"""The generation of the role: above all that the journal, the other side's journal or the clients know."""

from __future__ import annotations

from drkit.errors import DrkitError
from drkit.failover.context import Context
from drkit.failover.journal_topic import JournalTopic
from drkit.kafka.raw import RawCluster, RawError
from drkit.repoint import adapters, ask_all


def least_term(context: Context) -> int:
    """A term above all that are known outside of this journal; who does not answer is not waited for."""
    return 1 + max(_opposite(context), _told(context))


def _opposite(context: Context) -> int:
    """Of the failovers in the other direction: their journal is on what is the source now."""
    source = context.source()
    if source is None:
        return 0
    topic = JournalTopic(source, context.flow.target, context.flow.source)
    try:
        found: int = context.run(_read, topic, source)
    except (DrkitError, RawError):
        return 0
    return found


async def _read(topic: JournalTopic, _source: RawCluster) -> int:
    if not await topic.exists():
        return 0
    await topic.read()
    return topic.history.term


def _told(context: Context) -> int:
    asked = ask_all(adapters(context.settings.failover.repoint))
    return max((a.told.term for a in asked if a.told is not None), default=0)
