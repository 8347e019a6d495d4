"""Tokens for SASL/OAUTHBEARER from a token endpoint (OAuth 2 client credentials, KIP-768)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from kafka.net.sasl.oauth import AbstractTokenProvider

from drkit.clock import Seconds, monotonic
from drkit.errors import ConfigError, NotAuthenticated
from drkit.kafka.security.settings import OAuth
from drkit.time_limit import in_time

_TIMEOUT_SECONDS: Final = 10.0
_LARGEST: Final = 1 << 20
_USED_PART_OF_LIFE: Final = 0.8
"""Java's clients refresh after this part of a token's lifetime too (KIP-368)."""


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # its base has no types
    """Fetches a token when it is first needed and again before it expires.

    :param clock: decides whether a token is still fresh
    """

    def __init__(self, oauth: OAuth, where: str, clock: Seconds = monotonic) -> None:
        super().__init__()
        if urlsplit(oauth.url).scheme not in {"http", "https"}:
            raise ConfigError(
                "the token endpoint is no http(s) address",
                where=where,
                evidence=oauth.url,
                hint="set sasl.oauthbearer.token.endpoint.url to https://…",
            )
        self._oauth = oauth
        self._where = where
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._fresh_until = 0.0

    def token(self) -> str:
        """A valid access token. Raises NotAuthenticated when the endpoint gives none."""
        with self._lock:
            if not self._token or self._clock() >= self._fresh_until:
                asked_at = self._clock()
                answer = self._ask()
                self._token = str(answer["access_token"])
                self._fresh_until = asked_at + float(answer.get("expires_in", 0)) * _USED_PART_OF_LIFE
            return self._token

    def _ask(self) -> dict[str, Any]:
        fields = {"grant_type": "client_credentials"}
        if self._oauth.scope:
            fields["scope"] = self._oauth.scope
        who = base64.b64encode(f"{self._oauth.client_id}:{self._oauth.client_secret}".encode()).decode()
        request = Request(  # noqa: S310  the scheme was checked
            self._oauth.url,
            data=urlencode(fields).encode(),
            headers={"Authorization": f"Basic {who}", "Accept": "application/json"},
        )
        context = ssl.create_default_context(cafile=self._oauth.ca_file)

        def post() -> bytes:
            with urlopen(request, timeout=_TIMEOUT_SECONDS, context=context) as response:  # noqa: S310  likewise
                found: bytes = response.read(_LARGEST)
                return found

        try:
            answer = json.loads(in_time(_TIMEOUT_SECONDS, post))
        except (URLError, TimeoutError, ValueError) as error:
            raise self._refused(str(error) or f"no answer in {_TIMEOUT_SECONDS:g} s") from error
        if not isinstance(answer, dict) or "access_token" not in answer:
            raise self._refused("the answer holds no access_token")
        return answer

    def _refused(self, evidence: str) -> NotAuthenticated:
        return NotAuthenticated(
            "the token endpoint gave no token",
            where=f"{self._where}: {self._oauth.url}",
            evidence=evidence,
            hint="check sasl.oauthbearer.client.id, the secret and the scope",
        )
