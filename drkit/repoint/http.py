"""HTTP calls with a limit on everything: time, size, redirects."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
import json
import re
import socket
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from drkit.errors import Failed
from drkit.masking import scrubbed
from drkit.repoint.contract import TryAgain
from drkit.time_limit import in_time

_LARGEST: Final = 4 << 20
"""Bytes of an answer that are read; a ConfigMap has at most 1 MiB."""
_TOLD: Final = 500
_PASSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed (RFC 9110, RFC 6585, RFC 8470)."""


class HttpAnswer(NamedTuple):
    """Status and body of an answer."""

    status: int
    body: bytes

    @property
    def is_done(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300  # noqa: PLR2004  RFC 9110

    @property
    def text(self) -> str:
        """The answer as text for an error message."""
        text = scrubbed(self.body[:_TOLD].decode(errors="replace").strip())
        return f"HTTP {self.status}" + (f": {text}" if text else "")

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


class HttpCaller:
    """Calls one server, one call at a time. Follows no redirects: no other server may get what is sent.

    :param context: for https
    :param timeout_seconds: of a whole call, from the name service to the last byte of the answer
    """

    def __init__(self, context: ssl.SSLContext, timeout_seconds: float) -> None:
        self._seconds = timeout_seconds
        self._open: list[HTTPConnection] = []
        # These limits are per socket call; the connection that they leave open is closed from outside.
        time_limit = urllib3.Timeout(total=timeout_seconds)
        self._pool = urllib3.PoolManager(timeout=time_limit, retries=False, ssl_context=context)
        self._pool.pool_classes_by_scheme = {
            "http": _noting(urllib3.HTTPConnectionPool, HTTPConnection, self._open),
            "https": _noting(urllib3.HTTPSConnectionPool, HTTPSConnection, self._open),
        }

    def call(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        """Send a request.

        :raises TryAgain: no connection, no answer in time, or one that says to retry
        :raises Failed: the server cannot be trusted, or the request is invalid
        """
        where = place_of(url)
        try:
            found = in_time(self._seconds, lambda: self._answer(method, url, headers, body))
        except TimeoutError as error:
            self._hang_up()
            evidence = f"not complete in {self._seconds:g} s: timed out"
            raise TryAgain("no answer", where=where, evidence=evidence) from error
        except urllib3.exceptions.SSLError as error:
            raise Failed(
                "the server's certificate is not trusted, or it speaks another TLS",
                where=where,
                evidence=str(error),
                hint="name its authority in PEM with ca_file, or in the kubeconfig",
            ) from error
        except (urllib3.exceptions.LocationValueError, ValueError) as error:
            # Their texts repeat the address or the header, which may be secrets.
            evidence = "not an address, or a header that HTTP does not allow"
            raise Failed(
                "there can be no such request", where=where, evidence=evidence,
                hint="correct url and headers",
            ) from error  # fmt: skip
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise TryAgain("no answer", where=where, evidence=_plain(error)) from error
        if found.status in _PASSES:
            raise TryAgain("the server cannot do it now", where=where, evidence=found.text)
        return found

    def _answer(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        answer = self._pool.request(method, url, body=body, headers=dict(headers), preload_content=False)
        found = HttpAnswer(answer.status, answer.read(_LARGEST))
        answer.close()  # the rest of an answer that is too large stays unread
        return found

    def _hang_up(self) -> None:
        """End a call that takes too long: a server that sends a byte a second would never end it."""
        while self._open:
            connected = self._open.pop().sock
            if connected is not None:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)


def _noting(
    pool: type[urllib3.HTTPConnectionPool], kind: type[HTTPConnection], noted: list[HTTPConnection]
) -> Any:
    """A kind of pool that notes each connection it opens."""

    def opened(*args: Any, **more: Any) -> HTTPConnection:
        made = kind(*args, **more)
        noted[:] = [made]
        return made

    return type(pool.__name__, (pool,), {"ConnectionCls": staticmethod(opened)})


def place_of(url: str) -> str:
    """An address without its parts that may be secret: path, query, user."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "an address that cannot be read"


def _plain(error: Exception) -> str:
    # Messages of urllib3 begin with the object that made them: "HTTPConnection(host='h', port=1): Timed out"
    said = re.sub(r"^.*?[>)]: ", "", str(error))
    return f"{type(error).__name__}: {said}"
