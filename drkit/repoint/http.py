"""HTTP calls with a limit on everything: time, size, redirects."""

from __future__ import annotations

from collections.abc import Mapping
import json
import re
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import urllib3

from drkit.errors import Failed
from drkit.masking import scrubbed
from drkit.repoint.contract import TryAgain

_LARGEST: Final = 4 << 20
"""Bytes of an answer; a ConfigMap has 1 MiB at the most."""
_TOLD: Final = 500
_PASSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed (RFC 9110, RFC 6585, RFC 8470)."""


class Answer(NamedTuple):
    """Status and body of an answer."""

    status: int
    body: bytes

    @property
    def is_done(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300  # noqa: PLR2004  RFC 9110

    @property
    def said(self) -> str:
        """For an error message."""
        text = scrubbed(self.body[:_TOLD].decode(errors="replace").strip())
        return f"HTTP {self.status}" + (f": {text}" if text else "")

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


class HttpCaller:
    """Calls one server; follows no redirects, for what is sent belongs to nobody else.

    :param context: for https
    """

    def __init__(self, context: ssl.SSLContext, timeout_seconds: float) -> None:
        time_limit = urllib3.Timeout(total=timeout_seconds)
        self._pool = urllib3.PoolManager(timeout=time_limit, retries=False, ssl_context=context)

    def call(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send a request.

        :raises TryAgain: no connection, no answer in time, or one that says to come back
        :raises Failed: the server cannot be trusted, or what it sends never ends
        """
        where = place_of(url)
        try:
            answer = self._pool.request(method, url, body=body, headers=dict(headers), preload_content=False)
            found = Answer(answer.status, answer.read(_LARGEST + 1))
            answer.release_conn()
        except urllib3.exceptions.SSLError as error:
            raise Failed(
                "the server's certificate is not trusted, or it speaks another TLS",
                where=where,
                evidence=str(error),
                hint="name its authority in PEM with ca_file, or in the kubeconfig",
            ) from error
        except urllib3.exceptions.LocationParseError as error:
            raise Failed(
                "not an address", where=where, evidence=str(error), hint="correct the url"
            ) from error
        except urllib3.exceptions.HTTPError as error:
            raise TryAgain("no answer", where=where, evidence=_plain(error)) from error
        if len(found.body) > _LARGEST:
            raise Failed("the answer is too large", where=where, evidence=f"more than {_LARGEST} bytes")
        if found.status in _PASSES:
            raise TryAgain("the server cannot do it now", where=where, evidence=found.said)
        return found


def place_of(url: str) -> str:
    """An address without what may be secret in it: path, query, user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def _plain(error: Exception) -> str:
    # Messages of urllib3 begin with the object that made them: "HTTPConnection(host='h', port=1): Timed out"
    said = re.sub(r"^.*?[>)]: ", "", str(error))
    return f"{type(error).__name__}: {said}"
