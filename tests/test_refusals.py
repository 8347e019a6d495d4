"""Every refusal in drkit's source says what was seen and what to do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = {"Refused": {"evidence", "hint"}, "ConfigError": {"where", "hint"}}
"""Keywords of each kind. A refused name gets its place (``where``) from the caller who knows the flow; what
is wrong in a configuration is often all the evidence there is."""
NO_PLACE = {"drkit/local/jars.py", "drkit/demo/stage.py", "drkit/local/cluster.py"}
"""Local clusters and the demonstration: they have neither a flow nor a setting."""


def poor(text: str) -> list[str]:
    """Refusals that say too little, each with its line."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NEEDED:
            said = {k.arg for k in node.keywords if not _is_empty(k.value)}
            if missing := NEEDED[node.func.id] - said:
                found.append(f"line {node.lineno}: {node.func.id} without {', '.join(sorted(missing))}")
    return found


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


@pytest.mark.parametrize("path", sorted((ROOT / "drkit").rglob("*.py")), ids=lambda p: p.stem)
def test_every_refusal_says_what_was_seen_and_what_to_do(path: Path):
    if path.relative_to(ROOT).as_posix() not in NO_PLACE:
        assert not poor(path.read_text(encoding="utf-8"))


def test_a_poor_refusal_is_seen():
    assert poor("raise Refused('no', where='x', evidence='1')") == ["line 1: Refused without hint"]
    assert poor("raise ConfigError('no', where='x', hint='')") == ["line 1: ConfigError without hint"]
    assert not poor("raise Refused('no', where='x', evidence='1', hint='set y')")
