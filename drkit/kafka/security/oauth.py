"""Tokens for SASL/OAUTHBEARER from a token endpoint (OAuth 2 client credentials, KIP-768)."""

from __future__ import annotations

import base64
from http.client import HTTPException
import json
import math
import ssl
import threading
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kafka.net.sasl.oauth import AbstractTokenProvider

from drkit.clock import Seconds, monotonic
from drkit.errors import ConfigError, NotAuthenticated
from drkit.kafka.security.settings import OAuth
from drkit.masking import scrubbed
from drkit.time_limit import in_time

_TIMEOUT_SECONDS: Final = 10.0
_LARGEST: Final = 1 << 20
_USED_PART_OF_LIFE: Final = 0.8
"""Java's clients refresh after this part of a token's lifetime too (KIP-368)."""


class _Token(NamedTuple):
    text: str
    life_seconds: float


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects: the client's secret goes only to the configured address."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """None: the answer is an error."""


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # its base has no types
    """Fetches a token when it is first needed and again before it expires.

    :param clock: decides whether a token is still fresh
    """

    def __init__(self, oauth: OAuth, where: str, clock: Seconds = monotonic) -> None:
        super().__init__()
        if urlsplit(oauth.url).scheme not in {"http", "https"}:
            raise ConfigError("token_endpoint_malformed", where=where, evidence=scrubbed(oauth.url))
        self._oauth = oauth
        self._where = where
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._fresh_until = 0.0

    def token(self) -> str:
        """Return a valid access token. Raises NotAuthenticated if the endpoint returns none."""
        with self._lock:
            if not self._token or self._clock() >= self._fresh_until:
                asked_at = self._clock()
                self._token, life_seconds = self._ask()
                self._fresh_until = asked_at + life_seconds * _USED_PART_OF_LIFE
            return self._token

    def _ask(self) -> _Token:
        fields = {"grant_type": "client_credentials"}
        if self._oauth.scope:
            fields["scope"] = self._oauth.scope
        who = base64.b64encode(f"{self._oauth.client_id}:{self._oauth.client_secret}".encode()).decode()
        headers = {"Authorization": f"Basic {who}", "Accept": "application/json"}
        data = urlencode(fields).encode()
        request = Request(self._oauth.url, data, headers)  # noqa: S310  the scheme was checked
        context = ssl.create_default_context(cafile=self._oauth.ca_file)
        opener = build_opener(_NoRedirects, HTTPSHandler(context=context))

        def post() -> bytes:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                found: bytes = response.read(_LARGEST)
                return found

        try:
            return read_answer(in_time(_TIMEOUT_SECONDS, post))
        except (OSError, HTTPException, ValueError) as error:  # OSError: also URLError and TimeoutError
            raise self._refused(str(error) or f"no answer in {_TIMEOUT_SECONDS:g} s") from error

    def _refused(self, evidence: str) -> NotAuthenticated:
        return NotAuthenticated(
            "no_token", where=f"{self._where}: {scrubbed(self._oauth.url)}", evidence=evidence
        )


def read_answer(body: bytes) -> _Token:
    """The token and its life in seconds, from what an endpoint answered (RFC 6749, 5.1).

    :raises ValueError: it is something else; the text does not repeat it, for it may hold a token
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the answer is not JSON") from None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("the answer holds no access_token")
    if not all("!" <= letter <= "~" for letter in token):
        raise ValueError("its access_token has characters that no token has")
    return _Token(token, _seconds(answer.get("expires_in", 0)))


def _seconds(expires_in: Any) -> float:
    """Some endpoints write the number as a text."""
    try:
        life = float(expires_in)
    except (TypeError, ValueError, OverflowError):
        life = math.nan
    if isinstance(expires_in, bool) or not 0 <= life < math.inf:
        raise ValueError("its expires_in is not a number of seconds")
    return life
