"""The contract of adapters: however often one is called, clients have the endpoint of the newest term."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from drkit.endpoint import Endpoint
from drkit.errors import Failed, Refused


class RepointEffect(StrEnum):
    """The effect of sending an endpoint."""

    CHANGED = "changed"
    """The endpoint is new for clients."""
    UNCHANGED = "unchanged"
    """Clients already had exactly this endpoint."""


class OlderTerm(Refused):
    """The clients have an endpoint of a newer term."""


class TryAgain(Failed):
    """A failure that may be temporary: no answer, a conflict, a lock."""


class Adapter(Protocol):
    """One way to send clients their endpoint.

    `tell` may be repeated at any time, also after it failed half way: clients then have either the previous
    endpoint or the new one, never a part. The same term with another content is a correction by the run that
    holds this term, and is sent.
    """

    @property
    def name(self) -> str:
        """Kind and address, without secrets, as in ``file /etc/orders/kafka-endpoint.json``."""

    def current(self) -> Endpoint | None:
        """The endpoint that clients have now; None if they have no endpoint yet, or if it cannot be queried.

        :raises TryAgain: no answer
        :raises Failed: it cannot be read
        """

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """Send clients the endpoint, unless they have a newer term.

        :raises OlderTerm: clients have a newer term
        :raises TryAgain: the failure may be temporary
        :raises Failed: the failure is permanent
        """


def judge(current: Endpoint | None, endpoint: Endpoint, where: str) -> RepointEffect:
    """The effect of sending this endpoint, given the one that clients have now.

    :raises OlderTerm: clients have a newer term
    """
    if current is None or endpoint.term > current.term:
        return RepointEffect.CHANGED
    if endpoint.term < current.term:
        raise older(where, endpoint, f"term {current.term} leads to {current.cluster}")
    return RepointEffect.UNCHANGED if current == endpoint else RepointEffect.CHANGED


def older(where: str, endpoint: Endpoint, evidence: str) -> OlderTerm:
    """The error for an endpoint whose term is over."""
    return OlderTerm(
        "older_term", where=where, evidence=evidence, cluster=endpoint.cluster, term=endpoint.term
    )
