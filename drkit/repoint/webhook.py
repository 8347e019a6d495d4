"""A webhook sends the endpoint to clients."""

from __future__ import annotations

from collections.abc import Mapping
import hashlib
import hmac
from typing import Final

from drkit.clock import Millis, wall_ms
from drkit.endpoint import Endpoint
from drkit.errors import DrkitError, Failed, NotAuthorized
from drkit.kafka.clients import tls_context
from drkit.kafka.security.settings import Tls
from drkit.repoint.contract import RepointEffect, older
from drkit.repoint.http import HttpCaller, place_of

_CONFLICT: Final = 409
_ALREADY: Final = 208
_NOT_AUTHORIZED: Final = frozenset({401, 403})
_WHERE: Final = "[failover] repoint"


class Webhook:
    """Posts the endpoint as JSON.

    Only the receiver knows the clients' previous endpoint. It answers with any 2xx when they have this
    endpoint now (208: they already had it), and with 409 when they have a newer term. ``Idempotency-Key``
    names cluster and term, so that the receiver recognizes a repetition.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None,
        headers: Mapping[str, str],
        ca_file: str | None,
        timeout_seconds: float,
        wall: Millis = wall_ms,
    ) -> None:
        self._url, self._secret, self._headers, self._wall = url, secret, dict(headers), wall
        self._caller = HttpCaller(tls_context(Tls(ca_file=ca_file), _WHERE), timeout_seconds)

    @property
    def name(self) -> str:
        """See :class:`Adapter`."""
        return f"webhook {place_of(self._url)}"

    def current(self) -> None:
        """See :class:`Adapter`: a webhook cannot be queried, so the answer is always None."""

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """See :class:`Adapter`."""
        body = endpoint.to_json().encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "drkit",
            "Idempotency-Key": f"{endpoint.cluster_id}-{endpoint.term}",
            "Drkit-Term": str(endpoint.term),
            **(signed(self._secret, body, self._wall()) if self._secret is not None else {}),
            **self._headers,
        }
        answer = self._caller.call("POST", self._url, headers, body)
        if answer.status == _CONFLICT:
            raise older(self.name, endpoint, answer.text)
        if answer.status in _NOT_AUTHORIZED:
            raise NotAuthorized("webhook_unauthorized", where=place_of(self._url), evidence=answer.text)
        if not answer.is_done:
            raise Failed("webhook_refused", where=place_of(self._url), evidence=answer.text)
        return RepointEffect.UNCHANGED if answer.status == _ALREADY else RepointEffect.CHANGED


def post(caller: HttpCaller, url: str, secret: str | None, body: bytes) -> str:
    """Post JSON, signed where there is a secret; return why it failed, or "" if it did not."""
    headers = {"Content-Type": "application/json", "User-Agent": "drkit"}
    if secret:
        headers |= signed(secret, body, wall_ms())
    try:
        answer = caller.call("POST", url, headers, body)
    except DrkitError as error:
        return error.in_short
    return "" if answer.is_done else answer.text


def signed(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    """The headers that prove to a receiver who sent this, and when."""
    stamp = str(at_ms // 1000)
    return {"Drkit-Timestamp": stamp, "Drkit-Signature": signature(secret, stamp, body)}


def signature(secret: str, stamp: str, body: bytes) -> str:
    """HMAC-SHA256 over ``<timestamp>.<body>``: an intercepted request cannot be replayed later.

    :param stamp: seconds since 1970, as in the header ``Drkit-Timestamp``
    """
    made = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={made.hexdigest()}"
