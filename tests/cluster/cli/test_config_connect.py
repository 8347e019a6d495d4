from __future__ import annotations

import json
from pathlib import Path

import pytest

from drkit.cli import main as cli
from drkit.local.cluster import LocalCluster
from tests.support.errors import sentence


def write(folder: Path, primary: str, standby: str) -> str:
    file = folder / "drkit.toml"
    file.write_text(
        f'[clusters.primary]\nbootstrap_servers = "{primary}"\n'
        f'[clusters.standby]\nbootstrap_servers = "{standby}"\n'
        '[[flows]]\nsource = "primary"\ntarget = "standby"\n'
    )
    return str(file)


def test_both_clusters_answer(
    source: LocalCluster, target: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    config = write(tmp_path, source.bootstrap(), target.bootstrap())
    assert cli.run(["config", "check", "--connect", "--json", "--config", config]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["result"] == "OK"
    assert [c["cluster_id"] for c in answer["clusters"]] == [source.cluster_id, target.cluster_id]
    rows = {(r["cluster"], r["topic"]): r["writers"] for r in answer["may_write"]}
    assert rows["standby", "drkit-state.primary.internal"] == [
        "any client that can connect: standby has no authorizer"
    ]
    assert ("primary", "heartbeats") in rows


def test_one_cluster_under_two_aliases_is_refused(
    source: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """P9: one cluster under two aliases is refused by its id, before any run."""
    config = write(tmp_path, source.bootstrap(), source.bootstrap("PROBE"))
    assert cli.run(["config", "check", "--connect", "--config", config]) == 3
    out, err = capsys.readouterr()
    assert not out
    assert sentence("clusters_identical", source="primary", target="standby") in err
    assert source.cluster_id in err
