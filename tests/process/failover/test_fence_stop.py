"""The site's own way to stop a primary, without brokers: a real program and a real receiver."""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path
import sys
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.config.tables.fence import FenceSettings
from drkit.errors import Failed
from drkit.failover.fencing.stop import has_stop, still_there, stop_site
from drkit.kafka.raw import EventLoop
from drkit.local.ports import PortReservation
from tests.support.errors import coded
from tests.support.repoint.certificates import certificate
from tests.support.repoint.receiver import HttpReceiver

DOCUMENT: dict[str, Any] = {"cluster": "primary", "run_id": "r1", "term": 3, "bootstrap_servers": "p1:9092"}


class Receiver(HttpReceiver):
    """One that checks the signature, and keeps what was posted."""

    def take(self, body: bytes) -> int:
        self.headers.setdefault("Idempotency-Key", "")
        done = super().take(body)
        return 200 if done == 204 else done


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver("hush")
    yield made
    made.close()


def settings(**fields: Any) -> FenceSettings:
    return FenceSettings.model_validate({"stop_seconds": 5.0, **fields})


def test_nothing_is_set():
    assert not has_stop(settings())


def test_a_webhook_is_signed_and_gets_what_is_to_be_stopped(receiver: Receiver):
    hook = settings(stop_webhook=receiver.url, stop_secret="hush")
    assert has_stop(hook)
    said = stop_site(hook, DOCUMENT)
    assert receiver.known == DOCUMENT
    assert said == receiver.url.replace("http", "webhook http").split("/hooks")[0]


@pytest.mark.parametrize("secret", ["other", "hush"])
def test_one_that_does_not_stop_it_is_said_without_its_secrets(receiver: Receiver, secret: str):
    if secret == "hush":
        receiver.answers = [(503, {})]
    with pytest.raises(Failed, check=coded("old_primary_not_stopped")) as caught:
        stop_site(settings(stop_webhook=receiver.url, stop_secret=secret), DOCUMENT)
    assert ("HTTP 503" if secret == "hush" else "HTTP 401") in caught.value.evidence
    assert "by hand" in caught.value.hint
    assert "t0p-secret" not in str(vars(caught.value))


def test_a_webhook_with_a_private_authority_is_trusted_only_when_the_authority_is_named(tmp_path: Path):
    authority, chain = certificate(tmp_path)
    receiver = Receiver("hush", chain)
    try:
        with pytest.raises(Failed, check=coded("old_primary_not_stopped")) as caught:
            stop_site(settings(stop_webhook=receiver.url, stop_secret="hush"), DOCUMENT)
        assert "certificate verify failed" in caught.value.evidence
        assert receiver.known is None
        named = settings(stop_webhook=receiver.url, stop_secret="hush", stop_ca_file=str(authority))
        stop_site(named, DOCUMENT)
        assert receiver.known == DOCUMENT
    finally:
        receiver.close()


def test_no_server_listens():
    with PortReservation() as ports:
        address = f"127.0.0.1:{ports.reserve()}"
        with pytest.raises(Failed, check=coded("old_primary_not_stopped")) as caught:
            stop_site(settings(stop_webhook=f"http://{address}/x"), DOCUMENT)
        assert "no answer" in caught.value.evidence
        loop = EventLoop()
        try:
            assert still_there(ClusterSettings(alias="a", bootstrap_servers=address), loop, 0.0) == []
        finally:
            loop.close()


def test_a_program_gets_it_on_its_input(tmp_path: Path):
    file = tmp_path / "heard.json"
    text = (
        "import os, pathlib, sys\n"
        "pathlib.Path(sys.argv[1]).write_text(sys.stdin.read() + os.environ['DRKIT_RUN'])"
    )
    command = (sys.executable, "-c", text, str(file))
    assert stop_site(settings(stop_command=command), DOCUMENT) == f"command {sys.executable}"
    heard, _, run = file.read_text().rpartition("\n")
    assert json.loads(heard) == DOCUMENT
    assert run == "r1"
    with pytest.raises(Failed, check=coded("old_primary_not_stopped")) as caught:
        stop_site(settings(stop_command=(sys.executable, "-c", "raise SystemExit('no way')")), DOCUMENT)
    assert "it ended with 1: no way" in caught.value.evidence
