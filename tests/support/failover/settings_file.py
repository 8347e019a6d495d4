"""The settings of a world as a file, and drkit's commands with it."""

from __future__ import annotations

from collections.abc import Mapping
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

from tests.support.failover.world import World

ROOT = Path(__file__).parents[3]


def toml(plain: Mapping[str, Any]) -> str:
    """Write plain data as TOML: tables, tables of tables and arrays of tables by name, the rest inline."""
    lines: list[str] = []
    for name, value in plain.items():
        if isinstance(value, list):
            tables = [(f"[[{name}]]", table) for table in value]
        elif value and all(isinstance(each, Mapping) for each in value.values()):
            tables = [(f"[{name}.{key}]", table) for key, table in value.items()]
        else:
            tables = [(f"[{name}]", value)]
        for header, table in tables:
            lines += [header, *(f"{json.dumps(key)} = {_inline(each)}" for key, each in table.items())]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def written(world: World, folder: Path) -> Path:
    """Write the configuration, but for the ways of repointing, to a file."""
    plain, file = world.plain(), folder / "drkit.toml"
    plain["failover"] = {k: v for k, v in plain["failover"].items() if k != "repoint"}
    file.write_text(toml(plain), encoding="utf-8")
    return file


def drkit(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    program = [sys.executable, "-m", "drkit", "--config", str(file), *words]
    return subprocess.run(
        program, capture_output=True, text=True, cwd=ROOT, timeout=90, check=False, stdin=subprocess.DEVNULL
    )
