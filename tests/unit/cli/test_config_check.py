"""``drkit config check`` refuses what no broker is needed for, with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drkit.cli import main as cli
from drkit.cli.client_check import client_problems
from tests.support.errors import sentence

PAIR = """\
[clusters.primary]
bootstrap_servers = "p:9092"
[clusters.standby]
bootstrap_servers = "s:9092"
[[flows]]
source = "primary"
target = "standby"
"""
AT = "clusters.primary.client"
CLIENT = "[clusters.primary.client]\n"
TOKEN_URL = '"sasl.oauthbearer.token.endpoint.url" = "https://sso/token"\n'


class Checked:
    """A person who checks a file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file, self._capsys = folder / "drkit.toml", capsys

    def __call__(self, text: str, *words: str) -> tuple[int, dict[str, str]]:
        self.file.write_text(text)
        code = cli.run(["config", "check", "--config", str(self.file), "--json", *words])
        out, err = self._capsys.readouterr()
        return code, json.loads(err or out)


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checked:
    return Checked(tmp_path, capsys)


def sasl(mechanism: str, more: str = "") -> str:
    return f'{PAIR}{CLIENT}"security.protocol" = "SASL_SSL"\n"sasl.mechanism" = "{mechanism}"\n{more}'


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        (sasl("SCRAM"), f'10: {AT}."sasl.mechanism"', "'SCRAM' is not one of PLAIN, SCRAM"),
        (sasl("SCRAM-SHA-512"), f'10: {AT}."sasl.mechanism"', "needs sasl.username"),
        (sasl("PLAIN", '"sasl.username" = "me"\n'), f'10: {AT}."sasl.mechanism"', "needs sasl"),
        (sasl("PLAIN", '"sasl.jaas.config" = "x"\n'), f'11: {AT}."sasl.jaas.config"', "cannot"),
        (sasl("OAUTHBEARER"), f'10: {AT}."sasl.mechanism"', "token.endpoint.url"),
        (sasl("OAUTHBEARER", TOKEN_URL), f'10: {AT}."sasl.mechanism"', "client.id"),
        (
            PAIR + CLIENT + '"sasl.mechanisms" = "PLAN"\n',
            f'9: {AT}."sasl.mechanisms"',
            "'PLAN' is not one of",
        ),
        (
            PAIR + CLIENT + '"security.protocol" = "SSL"\n"ssl.ca.location" = "/no/ca.pem"\n',
            f'10: {AT}."ssl.ca.location"',
            "/no/ca.pem cannot be read: No such file",
        ),
        (
            PAIR + CLIENT + '"security.protocol" = "SSL"\n"ssl.keystore.location" = "/no/k.jks"\n',
            f'10: {AT}."ssl.keystore.location"',
            "/no/k.jks cannot be read: No such file",
        ),
        (
            PAIR + CLIENT + '"security.protocol" = "TSL"\n',
            f'9: {AT}."security.protocol"',
            "'TSL' is not one of PLAINTEXT, SSL",
        ),
        (
            PAIR + CLIENT + '"request.timeout.ms" = "soon"\n',
            f'9: {AT}."request.timeout.ms"',
            "'soon' is not a whole number",
        ),
        (
            PAIR + '[[drills]]\nname = "n"\nkind = "readiness"\ncron = "0 0 31 2 *"\n',
            "11: drills[0].cron",
            "'0 0 31 2 *' is never due",
        ),
        (
            PAIR + 'target_producer = { "security.protocol" = "SASL_SSL", "sasl.mechanism" = "PLAIN" }\n',
            '8: flows[0].target_producer."sasl.mechanism"',
            "needs sasl.username",
        ),
        (
            PAIR + '[[detection.listeners]]\ncluster = "primary"\nname = "l"\nbootstrap_servers = "p:1"\n'
            'client = { "security.protocol" = "SASL_SSL", "sasl.mechanism" = "PLAIN" }\n',
            '12: detection.listeners[0].client."sasl.mechanism"',
            "needs sasl.username",
        ),
        (
            PAIR + '[failover.fence.canary]\n"security.protocol" = "SASL_SSL"\n"sasl.mechanism" = "PLAIN"\n',
            '10: failover.fence.canary."sasl.mechanism"',
            "needs sasl.username",
        ),
        (
            PAIR + '[failover.fence.canary]\n"sasl.usrname" = "shop"\n',
            '9: failover.fence.canary."sasl.usrname"',
            "no client of Kafka's has a property of this name",
        ),
    ],
)
def test_what_cannot_connect_is_refused(check: Checked, text: str, place: str, what: str):
    code, error = check(text)
    assert (code, error["where"]) == (2, f"{check.file}:{place}")
    assert what in error["error"]
    assert error["hint"]


def test_all_of_it_is_named_at_once(check: Checked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NOPE", raising=False)
    text = sasl("SCRAM-SHA-512", '"ssl.ca.location" = "/no/ca.pem"\n').replace(
        "[[flows]]",
        '[clusters.standby.client]\n"sasl.mechanism" = "X"\n"sasl.pasword" = "${env:NOPE}"\n[[flows]]',
    )
    code, error = check(text + "[metrics]\nprot = 1\n")
    assert code == 2
    assert [line.split(": ")[0] for line in error["evidence"].splitlines()] == [
        f"drkit.toml:{line}" for line in (6, 7, 7, 13, 14, 16)
    ]


def test_credentials_of_each_role_are_enough(check: Checked):
    """Then the cluster needs none: no connection is made without a role."""
    user = '{ "sasl.username" = "me", "sasl.password" = "secret" }'
    roles = "".join(f"{role} = {user}\n" for role in ("source_consumer", "source_admin"))
    text = sasl("PLAIN").replace('target = "standby"\n', f'target = "standby"\n{roles}')
    assert check(text)[0] == 0
    code, error = check(text.replace(f"source_admin = {user}\n", ""))
    assert code == 2
    assert error["where"] == f'{check.file}:11: clusters.primary.client."sasl.mechanism"'


def test_an_unset_password_is_one_problem(check: Checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("NOPE", raising=False)
    unset = '"${env:NOPE}"\n'
    code, error = check(sasl("PLAIN", f'"sasl.username" = "me"\n"sasl.password" = {unset}'))
    assert (code, error["error"]) == (2, "environment variable NOPE is not set")
    (tmp_path / "k.jks").write_bytes(b"\xfe\xed\xfe\xed")
    store = f'"ssl.keystore.location" = "{tmp_path}/k.jks"\n"ssl.keystore.password" = {unset}'
    code, error = check(f'{PAIR}{CLIENT}"security.protocol" = "SSL"\n{store}')
    assert (code, error["error"]) == (2, "environment variable NOPE is not set")
    code, error = check(f'{PAIR}{CLIENT}"security.protocol" = "SSL"\n{store.replace("k.jks", "none.jks")}')
    assert "2 problems" in error["error"], "a file that is missing is not hidden by its password"


def test_a_store_that_cannot_be_read_names_its_setting(check: Checked, tmp_path: Path):
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    text = f'{PAIR}{CLIENT}"security.protocol" = "SSL"\n"ssl.ca.location" = "{tmp_path}/ca.pem"\n'
    code, error = check(text)
    assert (code, error["where"]) == (2, f'{check.file}:10: clusters.primary.client."ssl.ca.location"')
    assert error["error"].startswith(sentence("certificate_unusable"))


def test_only_check_asks_for_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A host that has not all keys can still show its settings."""
    file = tmp_path / "drkit.toml"
    file.write_text(PAIR + CLIENT + '"security.protocol" = "SSL"\n"ssl.ca.location" = "/no/ca.pem"\n')
    assert cli.run(["config", "show", "--config", str(file)]) == 0
    assert "/no/ca.pem" in capsys.readouterr().out


def test_what_connects_has_no_problem():
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "plain"}
    assert not list(client_problems({}))
    assert not list(client_problems({"security.protocol": "SSL"}))
    assert not list(client_problems(plain | {"sasl.username": "u", "sasl.password": ""}))
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    assert not list(client_problems(plain | {"sasl.jaas.config": jaas}))
    assert [name for name, *_ in client_problems(plain)] == ["sasl.mechanism"]
