"""Which flows in the other direction a configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from drkit.config import Settings
from drkit.config.loader import read
from drkit.errors import ConfigError

CLUSTERS = {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in ("a", "b", "c")}


def named(*flows: Mapping[str, object]) -> list[tuple[str, ...] | None]:
    return [f.opposite_flows for f in Settings.model_validate({"clusters": CLUSTERS, "flows": flows}).flows]


def test_both_directions_in_one_file_name_each_other():
    there, back = {"source": "a", "target": "b"}, {"source": "b", "target": "a"}
    assert named(there, back) == [("b",), ("a",)]
    assert named(there) == [None]
    assert named(there, {"source": "b", "target": "c"}) == [None, None]
    assert named({**there, "opposite_flows": []}, back) == [(), ("a",)]
    assert named({**there, "opposite_flows": ["dc2"]}) == [("dc2",)]


def test_the_file_of_mirror_maker_too(tmp_path: Path):
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = b:9092\n"
        "a->b.enabled = true\nb->a.enabled = true\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    assert [f.opposite_flows for f in read(file, {}).settings.flows] == [("b",), ("a",)]


def test_from_the_environment(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(
        '[clusters.a]\nbootstrap_servers = "a:9092"\n[clusters.b]\nbootstrap_servers = "b:9092"\n'
        '[[flows]]\nsource = "a"\ntarget = "b"\n'
    )
    (flow,) = read(file, {"DRKIT_FLOWS__A__B__OPPOSITE_FLOWS": "dc1, dc2"}).settings.flows
    assert flow.opposite_flows == ("dc1", "dc2")
    with pytest.raises(ConfigError, match="must consist of letters"):
        read(file, {"DRKIT_FLOWS__A__B__OPPOSITE_FLOWS": "d.c"})
