"""HTTP calls with a limit on everything: time, size, redirects."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
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
        self._context = context
        self._seconds = timeout_seconds

    def call(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        """Send a request.

        :raises TryAgain: no connection, no answer in time, or one that says to retry
        :raises Failed: the server cannot be trusted, or the request is invalid
        """
        where = place_of(url)
        line = _Line()
        try:
            found = in_time(self._seconds, lambda: self._answer(line, method, url, headers, body))
        except TimeoutError as error:
            line.cut()
            evidence = f"not complete in {self._seconds:g} s: timed out"
            raise TryAgain("no_answer", where=where, evidence=evidence) from error
        except urllib3.exceptions.SSLError as error:
            raise Failed("certificate_untrusted", where=where, evidence=str(error)) from error
        except (urllib3.exceptions.LocationValueError, ValueError) as error:
            # Their texts repeat the address or the header, which may be secrets.
            evidence = "not an address, or a header that HTTP does not allow"
            raise Failed("request_malformed", where=where, evidence=evidence) from error  # fmt: skip
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise TryAgain("no_answer", where=where, evidence=_plain(error)) from error
        if found.status in _PASSES:
            raise TryAgain("server_unable", where=where, evidence=found.text)
        return found

    def _answer(
        self, line: _Line, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpAnswer:
        # These limits are per socket call; the connection that they leave open is closed from outside.
        time_limit = urllib3.Timeout(total=self._seconds)
        pool = urllib3.PoolManager(timeout=time_limit, retries=False, ssl_context=self._context)
        with closing(line), pool:
            pool.pool_classes_by_scheme = line.pools()
            answer = pool.request(method, url, body=body, headers=dict(headers), preload_content=False)
            found = HttpAnswer(answer.status, answer.read(_LARGEST))
            answer.close()  # the rest of an answer that is too large stays unread
        return found


class _Line:
    """The connection of one call, which another thread can cut at any time, also before it is made.

    A server that sends a byte a second would never end its call. The thread that calls may be anywhere when
    the time is over, before its connection too: each side writes its part and then reads the other's.
    """

    def __init__(self) -> None:
        self._is_cut = False
        self._socket: socket.socket | None = None

    def cut(self) -> None:
        """End the call: the connection, or the one that is made later."""
        self._is_cut = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def connected(self, made: socket.socket) -> socket.socket:
        """The socket of the call, as soon as it exists, before TLS. Raises OSError after `cut`."""
        # TLS takes the file descriptor out of the object; this one stays for `cut`.
        self._socket = made.dup()
        if self._is_cut:
            made.close()
            raise OSError("the call has ended")
        return made

    def pools(self) -> dict[str, Any]:
        """Pools of urllib3 whose connections are of this line."""
        plain = _of_line(self, HTTPConnection)
        encrypted = _of_line(self, HTTPSConnection)
        return {
            "http": type("Pool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("Pool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": encrypted}),
        }

    def close(self) -> None:
        """Close what `connected` keeps."""
        if self._socket is not None:
            self._socket.close()


def _of_line(line: _Line, kind: type[HTTPConnection]) -> type[HTTPConnection]:
    class Connection(kind):  # type: ignore[misc, valid-type]
        def _new_conn(self) -> socket.socket:
            return line.connected(super()._new_conn())

    return Connection


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
