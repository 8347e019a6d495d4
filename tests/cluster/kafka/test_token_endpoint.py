"""What a token endpoint may answer, and where the client's secret goes: there, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
import threading

import pytest

from drkit.errors import NotAuthenticated
from drkit.kafka.security.oauth import ClientCredentials, read_answer
from drkit.kafka.security.settings import OAuth


@contextmanager
def answering(status: int, body: bytes = b"", location: str = "") -> Iterator[tuple[str, list[str]]]:
    """A server and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Authorization')}")
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815  http.server has this name

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token", asked
        finally:
            server.shutdown()
            thread.join()


def token_of(url: str) -> str:
    return ClientCredentials(OAuth(url, "id", "top-secret"), "clusters.a.client").token()


@pytest.mark.wide
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int):
    with (
        answering(200, b'{"access_token": "t", "expires_in": 60}') as (elsewhere, asked),
        answering(status, location=elsewhere) as (url, _),
        pytest.raises(NotAuthenticated) as caught,
    ):
        token_of(url)
    assert not asked
    assert str(status) in caught.value.evidence


@pytest.mark.wide
@pytest.mark.parametrize(
    "expires", ['"soon"', "null", "[1]", "NaN", "Infinity", "-1", "1e999", "{}", "true", '""', "9" * 5000]
)
def test_a_life_that_is_no_number_is_refused(expires: str):
    with (
        answering(200, f'{{"access_token": "t", "expires_in": {expires}}}'.encode()) as (url, _),
        pytest.raises(NotAuthenticated) as caught,
    ):
        token_of(url)
    assert "expires_in" in caught.value.evidence or "not JSON" in caught.value.evidence


@pytest.mark.wide
@pytest.mark.parametrize("expires", ["60", '"60"', "60.5"])
def test_a_number_may_be_a_text(expires: str):
    assert read_answer(f'{{"access_token": "t", "expires_in": {expires}}}'.encode()).life_seconds >= 60


@pytest.mark.wide
@pytest.mark.parametrize(
    "body",
    [
        b"", b"no json", b"[" * 200_000, b"\xff\xfe", b"[]", b"5", b'{"access_token": {"a": 1}}',
        b'{"access_token": ""}', b'{"access_token": "a\\r\\nX: y"}', b'{"access_token": "\\u2603"}',
    ],
)  # fmt: skip
def test_what_is_no_token_is_refused_by_name(body: bytes):
    with answering(200, body) as (url, _), pytest.raises(NotAuthenticated):
        token_of(url)


@pytest.mark.wide
def test_an_address_with_a_password_is_not_repeated():
    with answering(401) as (url, _), pytest.raises(NotAuthenticated) as caught:
        token_of(url.replace("http://", "http://user:s3cret@"))
    assert "s3cret" not in str(caught.value.as_dict())
