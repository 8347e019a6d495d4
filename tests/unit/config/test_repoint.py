"""The settings of repointing: complete, known, and silent about secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.cli.main import run
from drkit.config import RepointSettings, read
from drkit.errors import ConfigError

Clients = tuple[list[str], list[str]]
"""Groups and topics."""
ONE = '[clusters.x]\nbootstrap_servers = "p:1"\n'
SAMPLE = """
[clusters.x]
bootstrap_servers = "p:1"
applications = { "bootstrap.servers" = "public:1", "security.protocol" = "SSL" }
[failover]
repoint = [
  { kind = "file", path = "/etc/shop/kafka.json", groups = ["shop.*"] },
  { kind = "webhook", url = "https://h/${env:HOOK}", secret = "${env:HUSH}", headers.A = "${env:AUTH}" },
  { kind = "configmap", name = "kafka", namespace = "shop" },
  { kind = "command", command = ["/bin/move", "--all"], retry_seconds = 0 },
  { kind = "print" },
]
"""
ENV = {"HOOK": "p4th", "HUSH": "h1dden", "AUTH": "t0ken"}


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ('kind = "fiel", path = "/x"', "no kind 'fiel' of repointing: did you mean 'file'?"),
        ('kind = "kubernetes"', "known: command, configmap, file, print, webhook"),
        ('kind = "file"', "kind 'file' needs 'path'"),
        ('kind = "file", path = "x.json"', "'x.json' is not a full path"),
        ('kind = "file", path = "/x", url = "http://h"', "kind 'file' has no 'url'"),
        ('kind = "webhook", url = "ftp://h"', "not an address like"),
        ('kind = "webhook", url = "http://h:99999/s3cret"', "not an address like"),
        ('kind = "webhook", url = "http://[::1/s3cret"', "not an address like"),
        ('kind = "webhook", url = "http://h/s3cret\\nx"', "not an address like"),
        ('kind = "webhook", url = "http://h", headers = { A = "s3cret\\nB: 1" }', "value of header 'A'"),
        ('kind = "webhook", url = "http://h", headers = { A = "s3cret\\u0000" }', "value of header 'A'"),
        ('kind = "webhook", url = "http://h", headers = { A = "s3cret\\u2603" }', "value of header 'A'"),
        ('kind = "webhook", url = "http://h", headers = { "A B" = "s3cret" }', "name of a header: 'A B'"),
        ('kind = "file", path = "/x\\u0000"', "NUL"),
        ('kind = "command", command = ["/x", "s3cret\\u0000"]', "NUL"),
        ('kind = "webhook", url = "http://h", key = "k"', "kind 'webhook' has no 'key'"),
        ('kind = "configmap"', "kind 'configmap' needs 'name'"),
        ('kind = "configmap", name = "n", key = "a/b"', "should match pattern"),
        ('kind = "command", command = []', "kind 'command' needs 'command'"),
        ('kind = "print", groups = "("', "not a regular expression"),
        ('kind = "print", timeout_seconds = 0', "greater than 0"),
    ],
)
def test_what_cannot_be(tmp_path: Path, table: str, what: str):
    file = tmp_path / "drkit.toml"
    file.write_text(f"{ONE}[failover]\nrepoint = [{{ {table} }}]\n")
    with pytest.raises(ConfigError) as refused:
        read(file, {})
    assert what in refused.value.what
    assert "failover.repoint[0]" in refused.value.where
    assert "s3cret" not in str(refused.value.as_dict())


def test_an_unknown_key_names_the_closest(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(f'{ONE}[failover]\nrepoint = [{{ kind = "file", pth = "/x" }}]\n')
    with pytest.raises(ConfigError) as refused:
        read(file, {})
    assert "did you mean 'path'?" in refused.value.hint


def test_applications_get_no_secrets(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(f'{ONE}applications = {{ "sasl.password" = "x" }}\n')
    with pytest.raises(ConfigError, match="have their own"):
        read(file, {})


def test_secrets_are_shown_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "drkit.toml"
    file.write_text(SAMPLE)
    found = read(file, ENV)
    assert not found.notes
    hook = found.settings.failover.repoint[1]
    assert (hook.url, hook.secret, hook.headers) == ("https://h/p4th", "h1dden", {"A": "t0ken"})
    (tmp_path / "plain.toml").write_text(
        SAMPLE.replace("${env:HOOK}", "p4th").replace("${env:", "").replace('}"', '"')
    )
    assert run(["--config", str(tmp_path / "plain.toml"), "config", "show"]) == 0
    shown = capsys.readouterr().out + repr(found.settings) + repr(hook)
    assert "kafka.json" in shown
    assert not [s for s in (*ENV.values(), "HUSH", "AUTH") if s in shown]


def test_which_way_reaches_which_clients(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(SAMPLE)
    ways = read(file, ENV).settings.failover.repoint
    assert [w.kind for w in ways if w.tells(["shop-1", "other"])] == [w.kind for w in ways]
    assert "file" not in [w.kind for w in ways if w.tells(["other"])]
    assert [w.is_unlimited for w in ways] == [w.kind != "file" for w in ways]


def test_a_way_for_producers_names_topics():
    """Without `groups` a way with `topics` is used for these alone; with neither, every client follows it."""
    file: dict[str, Any] = {"kind": "file", "path": "/e.json"}
    cases: list[tuple[dict[str, Any], Clients, Clients]] = [
        ({"topics": ["orders"]}, ([], ["orders"]), (["shop"], ["pay"])),
        ({"topics": "orders", "groups": ["shop"]}, (["shop"], ["pay"]), (["other"], ["pay"])),
        ({"groups": ["shop"]}, (["shop"], []), ([], ["orders"])),
    ]
    for more, used, not_used in cases:
        way = RepointSettings.model_validate({**file, **more})
        assert way.tells(*used)
        assert not way.tells(*not_used)
        assert not way.is_unlimited
    everybody = RepointSettings.model_validate(file)
    assert everybody.tells([], ["quiet"])
    assert everybody.is_unlimited
    assert RepointSettings.model_validate({**file, "groups": [".*"]}).is_unlimited


def test_applications_get_only_how_brokers_are_reached(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(f'{ONE}applications = {{ "plugin.library.paths" = "x.so" }}\n')
    with pytest.raises(ConfigError, match="does not say how brokers are reached"):
        read(file, {})
