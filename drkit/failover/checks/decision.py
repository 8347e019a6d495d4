"""Who decided on a failover, with the votes: every run records it, also one begun by hand."""

from __future__ import annotations

from collections.abc import Mapping
import getpass
import socket
from typing import Any, Final

from drkit.detect.noticeboard import read_notes
from drkit.detect.speakers import Speakers
from drkit.detect.votes import Vote
from drkit.failover.core.context import Context

_OLD_MS: Final = 300_000
"""A vote older than this does not count for this failover."""


def decided(context: Context, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decision for the journal.

    :param told: the decision of `drkit watch`, with votes and evidence; empty for a person's command: then
        the person decides, and the votes are the latest that the observers published
    :raises DrkitError: the observers' topic cannot be read
    """
    if told:
        return dict(told)
    now = context.wall()
    notes = read_notes(context.target_admin(), context.flow, Speakers.of(context.settings))
    found = [note.body for note in notes.all(Vote)]
    return {
        "by": person(),
        "mode": "by hand",
        "votes": [v.to_json() for v in found if now - v.at_ms < _OLD_MS],
    }


def person() -> str:
    """Return who runs this process: user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = "somebody"
    return f"{user} on {socket.gethostname()}"
