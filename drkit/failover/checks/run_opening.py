"""The opening of a run for the journal: its term, above all known ones, and who decided, with the votes."""

from __future__ import annotations

from collections.abc import Mapping
import getpass
from pathlib import Path
import socket
from typing import Any, Final

from drkit.detect.notes import Speakers
from drkit.detect.noticeboard import read_notes
from drkit.detect.votes import Vote
from drkit.endpoint import LARGEST_TERM
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import opposite_flow, opposite_journal, opposite_of
from drkit.journal.entries import JournalEntry
from drkit.pair.promotions import term_of
from drkit.repoint import adapters, ask_all

_CANNOT_BE_ASKED: Final = frozenset({"webhook", "command", "print"})
"""Kinds of repoint ways that accept an endpoint but cannot be queried for the current one."""


def least_term(context: Context, folder: Path) -> int:
    """Return a term above all known ones outside this journal; what does not answer is skipped.

    :param folder: this machine's journals: the one on the target may have been deleted
    """
    known = term_of(context.state.records)
    answers = ask_all(adapters(context.settings.failover.repoint))
    sent = max((e.term for a in answers if (e := a.endpoint) and e.term <= LARGEST_TERM), default=0)
    opposite = opposite_journal(context)
    return 1 + max(known, 0 if opposite is None else opposite.term, sent, _of_files(folder))


def refused_later(context: Context) -> str:
    """Return a sentence on receivers that may refuse this run's term after OPEN, or empty for none."""
    ways = sorted({w.kind for w in context.settings.failover.repoint} & _CANNOT_BE_ASKED)
    is_unread = context.source() is None and opposite_flow(context.settings, context.flow) is not None
    if not ways or not (context.term == 1 or is_unread):
        return ""
    cannot = f"receivers by {', '.join(ways)} cannot be asked, and refuse it"
    if context.term != 1:
        opposite = opposite_of(context.flow).name
        return f"the journal of {opposite} was not read: {cannot} if a run in it told them a newer term"
    return (
        f"this is the first term that is known: {cannot}"
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


_OLD_MS: Final = 300_000
"""A vote older than this does not count for this failover."""


def decided(context: Context, decision: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decision for the journal.

    :param decision: the one of `drkit watch`, with votes and evidence; empty for a person's command: then
        the person decides, and the votes are the latest that the observers published
    :raises DrkitError: the observers' topic cannot be read
    """
    if decision:
        return dict(decision)
    now = context.wall()
    notes = read_notes(context.target_admin(), context.flow, Speakers.of(context.settings))
    votes = [note.body.to_json() for note in notes.all(Vote) if now - note.body.at_ms < _OLD_MS]
    return {"by": person(), "mode": "by hand", "votes": votes}


def person() -> str:
    """Return who runs this process: user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = "somebody"
    return f"{user} on {socket.gethostname()}"
