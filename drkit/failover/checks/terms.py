"""The term of a run: above all terms in the journal, the other side's journal and at the clients."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drkit.errors import DrkitError
from drkit.failover.core.context import Context
from drkit.failover.journal.entries import JournalEntry
from drkit.failover.journal.topic import JournalTopic
from drkit.kafka.raw import RawCluster, RawError
from drkit.repoint import adapters, ask_all
from drkit.status.facts import term_of

_CANNOT_BE_ASKED: Final = frozenset({"webhook", "command", "print"})
"""Kinds of repoint ways that accept an endpoint but cannot be queried for the current one."""


def least_term(context: Context, folder: Path) -> int:
    """Return a term above all known ones outside of this journal; skips what does not answer.

    :param folder: this machine's journals: the one on the target may have been deleted
    """
    known = term_of(context.state.records)
    return 1 + max(known, _opposite(context), _sent_to_clients(context), _of_files(folder))


def refused_later(context: Context) -> str:
    """Return a sentence on receivers that may refuse the term of this run after OPEN; empty: none known.

    The first term may be too small: if the journal was lost, receivers that cannot be queried may have a
    larger term.
    """
    ways = sorted({w.kind for w in context.settings.failover.repoint} & _CANNOT_BE_ASKED)
    if context.term != 1 or not ways:
        return ""
    return (
        f"this is the first term that is known: receivers by {', '.join(ways)} cannot be asked, and refuse it"
        " if an earlier failover, whose journal is lost, told them a newer one"
    )


def _of_files(folder: Path) -> int:
    terms = [0]
    for path in folder.glob("*.jsonl"):
        try:
            with path.open(encoding="utf-8") as file:
                terms.append(JournalEntry.from_json(file.readline()).term)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not a journal, or a truncated one
    return max(terms)


def _opposite(context: Context) -> int:
    """Return the last term of failovers in the other direction; their journal is on the current source."""
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


def _sent_to_clients(context: Context) -> int:
    asked = ask_all(adapters(context.settings.failover.repoint))
    return max((a.endpoint.term for a in asked if a.endpoint is not None), default=0)
