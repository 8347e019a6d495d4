"""What a person decides in a return: what becomes of records, and how a log is brought in step. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from drkit.counted import first_of
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest

EVERY_TOPIC: Final = "*"
"""Instead of a topic's name: every topic that is not named."""
_SHOWN: Final = 50
"""Names of a list from which a person takes one."""


class Disposition(StrEnum):
    """What becomes of the records that only the old primary has."""

    DISCARD = "discard"
    """They remain in the export alone."""
    REPLAY = "replay"
    """They are appended to the topic on the new primary."""
    QUARANTINE = "quarantine"
    """They are appended to a topic of their own on the new primary."""


class Method(StrEnum):
    """How a partition's log on the old primary is brought in step with the new one."""

    DELTA = "delta"
    """Its records stay, and what clients wrote since is copied after them."""
    REBUILD = "rebuild"
    """It is emptied, and everything is copied."""
    TRIM = "trim"
    """It is emptied, and what clients wrote since is copied."""
    KEEP = "keep"
    """Its records stay, and those that only it has are appended to the new primary."""

    @property
    def empties(self) -> bool:
        """Whether the partition is emptied."""
        return self in {Method.REBUILD, Method.TRIM}


def refuse_unknown(request: RunRequest, topics: Collection[str], flow: str, command: object) -> None:
    """Refuse a choice for a topic that does not return: it would decide nothing.

    :param topics: those that return
    :param command: what leads on without such a choice
    :raises Refused: there is one
    """
    named = {*request.dispositions, *request.methods, *request.give_up_history} - {EVERY_TOPIC}
    if unknown := sorted(named - {*topics}):
        raise Refused(
            "choice_of_other_topic",
            where=flow,
            evidence=first_of(unknown, _SHOWN),
            topics=first_of(sorted(topics), _SHOWN),
            command=command,
        )


def choices_among(request: RunRequest, topics: Collection[str]) -> RunRequest:
    """Return the request without choices for topics that are not among these: they would be refused."""
    known = {*topics, EVERY_TOPIC}
    return request._replace(
        dispositions={t: choice for t, choice in request.dispositions.items() if t in known},
        methods={t: choice for t, choice in request.methods.items() if t in known},
        give_up_history=tuple(t for t in request.give_up_history if t in known),
    )


def choice_for(choices: Mapping[str, str], topic: str) -> str | None:
    """What was chosen for a topic, by its name or for every topic; None: nothing."""
    return choices.get(topic, choices.get(EVERY_TOPIC))
