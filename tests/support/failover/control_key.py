"""Settings and buckets of a pair with a control key."""

from __future__ import annotations

import json
from pathlib import Path

from drkit.flow_state.names import offset_map_topic
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.offset_map.bucket import MapBucket
from drkit.offset_map.reading import load
from tests.support.failover.world import World

KEYS = ("0123456789abcdef0123456789abcdef", "another key, another key, another key")


def configured(world: World, folder: Path, *keys: str) -> Path:
    """Give the world these keys, the first of which signs; returns the configuration for commands."""
    paths = []
    for text in keys:
        paths.append(folder / f"{text[:3]}.key")
        paths[-1].write_text(text)
        paths[-1].chmod(0o600)
    found = world.plain()
    lines = [
        "[control]",
        f'key_file = "{paths[0]}"',
        f"previous_key_files = {json.dumps(list(map(str, paths[1:])))}",
    ]
    world.control_fields = {"key_file": str(paths[0]), "previous_key_files": [str(p) for p in paths[1:]]}
    world.target = world.settings.cluster(world.target.alias)
    for alias, table in found["clusters"].items():
        lines += [f"[clusters.{alias}]", f'bootstrap_servers = "{table["bootstrap_servers"]}"']
    flow = {
        k: v for k, v in found["flows"][0].items() if k in {"source", "target", "topics", "groups", "buckets"}
    }
    lines += ["[[flows]]", *(f"{k} = {json.dumps(v)}" for k, v in flow.items())]
    lines += ["[failover]", f'journal_folder = "{world.folder}"']
    file = folder / "drkit.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def buckets(world: World) -> dict[int, MapBucket]:
    loop = EventLoop()
    raw = RawCluster(loop, world.target, "test")
    try:
        return load(loop, raw, offset_map_topic(world.source.alias), range(2))
    finally:
        raw.close()
        loop.close()
