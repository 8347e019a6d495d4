"""What the pages say about running drkit as MirrorMaker was run: near the target, plainly, far away."""

from __future__ import annotations

from pathlib import Path
import re
import tomllib

from drkit.config import Settings
from drkit.config.loader import read

DOCS = Path(__file__).parents[3] / "docs"
ALIASES = ("primary", "standby")
MIB = 1024 * 1024


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_settings_for_long_links_load():
    """P22: the settings of the page are settings, and fetch 32 MiB at a time."""
    (text,) = re.findall(r"```toml\n(.*?)```", page("how-to/wan.md"), re.DOTALL)
    clusters = {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in ALIASES}
    (flow,) = Settings.model_validate({"clusters": clusters, **tomllib.loads(text)}).flows
    assert flow.fetch_max_bytes == 32 * MIB
    assert (
        flow.produce_in_flight
        > Settings.model_validate(
            {"clusters": clusters, "flows": [{"source": "primary", "target": "standby", "topics": ["a"]}]}
        )
        .flows[0]
        .produce_in_flight
    )
    assert int(flow.source_consumer["receive.buffer.bytes"]) == 32 * MIB
    assert int(flow.target_producer["send.buffer.bytes"]) == 32 * MIB


def test_the_pages_say_where_to_run_it():
    """P24: beside the target, in the page on long links and in the one for users of MirrorMaker 2."""
    assert "Run drkit next to the target" in page("how-to/wan.md")
    assert "start drkit beside the target" in page("reference/coming-from-mirrormaker-2.md")


def test_a_flow_without_heartbeats(tmp_path: Path):
    """P21: as with a plain consumer and producer, nothing of MirrorMaker's is written into the source."""
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = b:9092\n"
        "a->b.enabled = true\na->b.emit.heartbeats.enabled = false\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    (flow,) = read(file, {}).settings.flows
    assert not flow.emit_heartbeats
    assert flow.naming_policy.downstream("orders") == "orders"
