"""Who decided on a failover, and what was known to whom: every run holds it, also one begun by hand."""

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
"""A vote of so long ago tells nothing about this failover."""


def decided(context: Context, told: Mapping[str, Any]) -> dict[str, Any]:
    """The decision as it is journalled.

    :param told: by `drkit watch`, with votes and evidence; of a person's command empty: then it is the
        person, and the votes are those that the observers published last
    :raises DrkitError: their topic cannot be read
    """
    if told:
        return dict(told)
    now = context.wall()
    notes = read_notes(context.target_admin(), context.flow, Speakers.of(context.settings))
    found = [note.body for note in notes.all(Vote)]
    return {
        "by": f"{_user()} on {socket.gethostname()}",
        "mode": "by hand",
        "votes": [v.to_json() for v in found if now - v.at_ms < _OLD_MS],
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return "somebody"
