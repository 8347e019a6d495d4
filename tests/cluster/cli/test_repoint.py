"""drkit repoint: before the first failover, and to see where clients are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drkit.cli.main import run
from drkit.endpoint import parse_endpoint
from drkit.local.cluster import LocalCluster
from tests.support.cli.json_fields import pin
from tests.support.errors import sentence


@pytest.fixture
def config(tmp_path: Path, source: LocalCluster, target: LocalCluster) -> Path:
    file = tmp_path / "drkit.toml"
    file.write_text(
        f"""
[clusters.primary]
bootstrap_servers = "{source.bootstrap()}"
applications = {{ "bootstrap.servers" = "public:1", "security.protocol" = "SSL" }}
[clusters.standby]
bootstrap_servers = "{target.bootstrap()}"
[failover]
repoint = [{{ kind = "file", path = "{tmp_path}/endpoint.json" }}, {{ kind = "print" }}]
"""
    )
    return file


def call(config: Path, *arguments: str) -> int:
    return run(["--config", str(config), "--json", "repoint", *arguments])


def answer(capsys: pytest.CaptureFixture[str], command: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    pin(command, rows)
    return rows


def test_the_first_endpoint_and_then_no_other_by_accident(
    config: Path, source: LocalCluster, capsys: pytest.CaptureFixture[str]
):
    endpoint = config.with_name("endpoint.json")
    assert call(config, "show") == 0
    [file, printed] = answer(capsys, "repoint show")
    assert (file["cluster"], file["remark"]) == (None, "nothing yet")
    assert printed["remark"] == "cannot be queried"
    assert call(config, "apply", "--to", "primary") == 0
    found = parse_endpoint(endpoint.read_text())
    assert (found.term, found.cluster_id) == (0, source.cluster_id)
    assert (found.bootstrap_servers, found.client) == ("public:1", {"security.protocol": "SSL"})
    assert "bootstrap.servers=public:1" in capsys.readouterr().err
    assert call(config, "apply", "--to", "primary") == 0
    assert answer(capsys, "repoint apply")[0]["result"] == "unchanged"
    assert call(config, "show") == 0
    assert answer(capsys, "repoint show")[0]["cluster"] == "primary"
    assert call(config, "apply", "--to", "standby") == 3
    assert "--term 1" in json.loads(capsys.readouterr().err)["hint"]
    assert parse_endpoint(endpoint.read_text()) == found
    assert call(config, "apply", "--to", "standby", "--term", "1") == 0
    assert call(config, "apply", "--to", "primary", "--term", "0") == 3
    assert parse_endpoint(endpoint.read_text()).cluster == "standby"


def test_nothing_to_tell_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "drkit.toml").write_text('[clusters.x]\nbootstrap_servers = "p:1"\n')
    assert call(tmp_path / "drkit.toml", "show") == 2
    assert "kafka-endpoint.json" in json.loads(capsys.readouterr().err)["hint"]


def test_ways_that_fail_are_named_and_hold_up_no_other(
    config: Path, target: LocalCluster, capsys: pytest.CaptureFixture[str]
):
    text, closed = config.read_text(), f"{config.parent}/no/folder.json"
    more = (
        f'{{ kind = "file", path = "{closed}" }}, {{ kind = "command", command = ["/no/such/program"] }},'
        f' {{ kind = "configmap", name = "app", kubeconfig = "{closed}" }},'
    )
    config.write_text(text.replace("repoint = [", f"repoint = [ {more}"))
    assert call(config, "show") == 0
    rows = answer(capsys, "repoint show")
    codes = ("endpoint_folder_missing", "program_missing", "kubeconfig_unusable")
    for row, code in zip(rows, codes, strict=False):
        assert sentence(code) in row["remark"]
    assert call(config, "apply", "--to", "standby") == 1
    heard = capsys.readouterr()
    rows = json.loads(heard.out)
    pin("repoint apply", rows)
    assert [r["result"] for r in rows] == ["failed"] * 3 + ["changed"] * 2
    assert f"{config.parent}/no" in rows[0]["error"]
    assert parse_endpoint(config.with_name("endpoint.json").read_text()).cluster_id == target.cluster_id
