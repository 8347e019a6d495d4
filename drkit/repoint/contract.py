"""What every adapter keeps: told once or ten times, clients know the endpoint of the newest term."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from drkit.endpoint import Endpoint
from drkit.errors import Failed, Refused


class RepointEffect(StrEnum):
    """What telling did."""

    CHANGED = "changed"
    """Clients are told this now."""
    UNCHANGED = "unchanged"
    """They were told exactly this before."""


class OlderTerm(Refused):
    """The clients know an endpoint of a newer term."""


class TryAgain(Failed):
    """It failed for a reason that may pass: no answer, a conflict, a lock."""


class Adapter(Protocol):
    """One way to tell clients.

    `tell` may be repeated at any time, also after it failed half way: then clients know either the endpoint
    of before or the new one, never a part. The same term with another content is a correction by the run that
    holds this term, and is told.
    """

    @property
    def name(self) -> str:
        """Kind and place, without secrets, as in ``file /etc/orders/kafka-endpoint.json``."""

    def told(self) -> Endpoint | None:
        """What clients are told now; None if nothing yet, or if nobody can be asked.

        :raises TryAgain: no answer
        :raises Failed: it cannot be read
        """

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """Tell clients, unless they know a newer term.

        :raises OlderTerm: they do
        :raises TryAgain: it may pass
        :raises Failed: it will not pass by itself
        """


def judge(told: Endpoint | None, endpoint: Endpoint, where: str) -> RepointEffect:
    """What telling this endpoint would do, given what is told now.

    :raises OlderTerm: a newer term is told
    """
    if told is None or endpoint.term > told.term:
        return RepointEffect.CHANGED
    if endpoint.term < told.term:
        raise older(where, endpoint, f"term {told.term} leads to {told.cluster}")
    return RepointEffect.UNCHANGED if told == endpoint else RepointEffect.CHANGED


def older(where: str, endpoint: Endpoint, evidence: str) -> OlderTerm:
    """The refusal of an endpoint whose term is over."""
    return OlderTerm(
        f"clients are not sent back to {endpoint.cluster} of term {endpoint.term}",
        where=where,
        evidence=evidence,
        hint="a later run moved them; drkit repoint show tells where they are, a failback moves them again",
    )
