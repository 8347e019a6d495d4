"""Notifications: a real HTTP server gets the webhook, a real program gets the JSON."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
from pathlib import Path
import sys
import threading
from typing import Any

import pytest

from drkit import observe
from drkit.config.tables.watch import WatchSettings
from drkit.errors import ConfigError
from drkit.local.ports import PortReservation
from drkit.repoint.webhook import signature
from drkit.watch.alerts import Teller
from tests.support.errors import sentence
from tests.support.waiting import eventually

MESSAGE = {"flow": "a->b", "verdict": "LOST", "command": "drkit failover --all"}


class Server:
    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.proofs: list[tuple[str, str, bytes]] = []
        self.answers = [200]
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard.append(json.loads(body))
                outer.proofs.append((self.headers["Drkit-Timestamp"], self.headers["Drkit-Signature"], body))
                self.send_response(outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0])
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def not_told() -> float:
    return observe.REGISTRY.get_sample_value("drkit_events_total", {"kind": "not_told"}) or 0.0


def test_the_webhook_and_the_command_get_the_message(server: Server, tmp_path: Path):
    file = tmp_path / "heard.json"
    program = f"import sys, pathlib; pathlib.Path({str(file)!r}).write_text(sys.stdin.read())"
    teller = Teller(WatchSettings(webhook=server.url, command=(sys.executable, "-c", program)))
    teller.tell(MESSAGE)
    teller.close(20.0)
    assert server.heard == [MESSAGE]
    assert json.loads(file.read_text()) == MESSAGE


def test_what_is_posted_is_signed(server: Server):
    settings = WatchSettings(webhook=server.url, webhook_secret="k3y")
    teller = Teller(settings)
    teller.tell(MESSAGE)
    teller.close(20.0)
    ((stamp, proof, body),) = server.proofs
    assert proof == signature("k3y", stamp, body)
    assert "k3y" not in repr(settings)


def test_an_authority_of_its_own_is_read(tmp_path: Path):
    with pytest.raises(ConfigError):
        Teller(WatchSettings(webhook="https://h/x", webhook_ca_file=str(tmp_path / "none.pem")))


def test_a_webhook_that_fails_is_tried_again(server: Server):
    server.answers = [503, 200]
    before = not_told()
    teller = Teller(WatchSettings(webhook=server.url))
    teller.tell(MESSAGE)
    eventually(lambda: len(server.heard) == 2, 20)
    teller.close()
    assert not_told() == before + 1


def test_failures_are_events_that_say_why_and_watching_continues(capsys: pytest.CaptureFixture[str]):
    """What leads to a webhook is often its secret: only its host is named."""
    with PortReservation() as ports:
        url = f"http://127.0.0.1:{ports.reserve()}/hook?token=geheim"
        observe.setup("json", "info")
        for settings in (WatchSettings(webhook=url), WatchSettings(command=("/no/such/program",))):
            before, teller = not_told(), Teller(settings)
            teller.tell(MESSAGE)
            eventually(lambda: not_told() > before, 20)  # noqa: B023  waited for in this round
            teller.close()
    said = capsys.readouterr().err
    assert "NewConnectionError" in said
    assert "geheim" not in said
    assert f"/no/such/program: {sentence('program_not_started')}: No such file or directory" in said


def test_a_redirect_is_no_success(server: Server):
    server.answers = [302]
    before = not_told()
    teller = Teller(WatchSettings(webhook=server.url))
    teller.tell(MESSAGE)
    eventually(lambda: not_told() > before, 20)
    teller.close()
    assert server.heard[0] == MESSAGE


def test_without_receivers_nothing_waits():
    teller = Teller(WatchSettings())
    for _ in range(1000):
        teller.tell(MESSAGE)
    teller.close()
