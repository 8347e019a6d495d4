"""No secret in a log line, an error, or a list of settings."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit import observe
from drkit.cli.main import run
from drkit.cli.render import emit_error
from drkit.config.loader import read
from drkit.config.tables.watch import FenceAgentSettings, WatchSettings
from drkit.errors import Failed
from drkit.masking import MASK, is_secret, scrubbed
from tests.support.errors import made, sentence

PEM = "-----BEGIN RSA PRIVATE KEY-----\ns3cret\ns3cret\n-----END RSA PRIVATE KEY-----"
TEXTS = [
    'password="my s3cret word"',
    'password=\\"my s3cret word\\" x',
    "password='it''s s3cret'",
    'password="a\\"b-s3cret"',
    "password = x;s3cret",
    "pwd=s3cret",
    "passwd: s3cret",
    "Authorization: Bearer eyJ.s3cret",
    '"Authorization": "Basic s3cret="',
    "sent Bearer s3cret.abc to the endpoint",
    "sent Basic s3cret= to the endpoint",
    "token=s3cret",
    '"access_token": "s3cret"',
    "client_secret=s3cret&x=1",
    '"clientSecret": "s3cret"',
    "https://user:s3cret@host/x",
    "https://host/x?a=1&token=s3cret&api_key=s3cret",
    "servers a:s3cret@h1:9092,b:s3cret@h2:9092 do not answer",
    "keystore.key=s3cret",
    "api-key: s3cret",
    "schema.registry.basic.auth.user.info=user:s3cret",
    "sasl.oauthbearer.config=scope=a extension_x=s3cret",
    PEM,
    json.dumps(PEM),
    PEM[:40],  # cut off before its end
]
NAMES = [
    "sasl.password", "sasl.jaas.config", "ssl.key.pem", "ssl.keystore.key", "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions", "sasl.oauthbearer.assertion.private.key.pem",
    "schema.registry.basic.auth.user.info", "basic.auth.credentials", "failover.repoint[0].url",
    "failover.repoint[0].headers.Authorization", "failover.fence.stop_webhook", "watch.webhook",
    "api_key", "pwd",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_others_lose_what_is_secret(text: str):
    assert "s3cret" not in scrubbed(text)
    assert MASK in scrubbed(text)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_secrets(name: str):
    assert is_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        f"{sentence('no_token')}: HTTP Error 401",
        "Basic authentication is off",
        "12:30 mail to me@example.org",
        "host-1:9092,host-2:9092",
        "https://host:8080/path?x=1",
        "sasl.oauthbearer.token.endpoint.url = https://host/token",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text: str):
    assert scrubbed(text) == text


@given(st.text())
def test_any_text_can_be_scrubbed(text: str):
    scrubbed(text)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_events_are_scrubbed_at_any_depth(log_format: observe.LogFormat, capsys: pytest.CaptureFixture[str]):
    observe.setup(log_format)
    secret = "password=s3cret"
    observe.event(
        "x",
        evidence=[secret],
        pair=(secret, {"deep": [secret]}),
        nested={"a": [secret], "sasl.password": "s3cret"},
    )
    assert "s3cret" not in capsys.readouterr().err


def test_an_error_with_a_quoted_secret_stays_json(capsys: pytest.CaptureFixture[str]):
    emit_error(made(Failed, "no", evidence='{"clientSecret": "s3cret"}'), as_json=True)
    shown = capsys.readouterr().err
    assert "s3cret" not in shown
    assert json.loads(shown)["error"] == "no"


SAMPLE = """
[clusters.a]
bootstrap_servers = "h:1"
[clusters.a.client]
"sasl.oauthbearer.token.endpoint.url" = "https://user:s3cret@h/token?api_key=s3cret"
[clusters.b]
bootstrap_servers = "h:2"
[[flows]]
source = "a"
target = "b"
[watch]
command = ["/bin/notify", "--key", "s3cret"]
[failover]
repoint = [{ kind = "command", command = ["/bin/tell", "s3cret"] }]
[failover.fence]
stop_command = ["/bin/stop", "s3cret"]
[fence_agent]
command = ["/bin/fence", "s3cret"]
proof_command = ["/bin/prove", "s3cret"]
"""


def test_arguments_of_commands_are_shown_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "drkit.toml"
    file.write_text(SAMPLE)
    for words in (["config", "show"], ["config", "show", "--json"]):
        assert run(["--config", str(file), *words]) == 0
        out = capsys.readouterr().out
        assert "s3cret" not in out
        for program in ("/bin/notify", "/bin/tell", "/bin/stop", "/bin/fence", "/bin/prove"):
            assert program in out
    assert "s3cret" not in repr(read(file, {}).settings)


def test_a_user_in_an_address_is_refused_without_its_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "drkit.toml"
    file.write_text(SAMPLE.replace('"h:1"', '"user:s3cret@h:1"'))
    assert run(["--config", str(file), "config", "show"]) == 2
    said = "".join(capsys.readouterr())
    assert "@h:1' is not host:port" in said
    assert "s3cret" not in said


def test_a_settings_own_text_hides_them_too():
    shown = repr(WatchSettings(command=("/bin/x", "s3cret"), webhook="https://h/s3cret"))
    shown += repr(FenceAgentSettings(command=("/bin/x", "s3cret"), lift_command=("/bin/x", "s3cret")))
    assert "s3cret" not in shown
    assert "/bin/x" in shown
