"""The settings of a world as a file, and drkit's commands with it."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys

from tests.support.failover.world import World

ROOT = Path(__file__).parents[3]


def written(world: World, folder: Path) -> Path:
    """The configuration as a file."""
    plain, file = world.plain(), folder / "drkit.toml"
    lines = []
    for alias, cluster in plain["clusters"].items():
        lines += [f"[clusters.{alias}]", f'bootstrap_servers = "{cluster["bootstrap_servers"]}"']
    for flow in plain["flows"]:
        lines += ["[[flows]]", *(f"{k} = {json.dumps(v)}" for k, v in flow.items())]
    lines += [
        "[failover]",
        *(f"{k} = {json.dumps(v)}" for k, v in plain["failover"].items() if k != "repoint"),
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def drkit(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    program = [sys.executable, "-m", "drkit", "--config", str(file), *words]
    return subprocess.run(
        program, capture_output=True, text=True, cwd=ROOT, timeout=90, check=False, stdin=subprocess.DEVNULL
    )
