"""Every event that drkit's source emits has a row on the page of events."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
import re

import pytest

from tests.support.laws import source_of

ROOT = Path(__file__).parents[1]
PAGE = next(ROOT.glob("docs/**/events.md"))
SOURCES = sorted((ROOT / "drkit").rglob("*.py"))
FIRST = {"event", "emit", "once", "done", "written"}
"""Methods and functions whose first argument is the event's kind."""
SECOND = {"stop"}
"""Those of a partition: its second argument."""
SNAKE_CASE = re.compile(r"[a-z0-9_]+")


def kinds(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The kinds that are written as they are, each with its line."""
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name = node.func.attr
        number = 0 if name in FIRST else 1 if name in SECOND else None
        if number is None or len(node.args) <= number:
            continue
        for value in ast.walk(node.args[number]):  # also `"a" if x else "b"`
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield node.lineno, value.value


@cache
def documented() -> set[str]:
    """The kinds in the first column of the page's tables."""
    rows = [line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    found = {kind for row in rows for kind in re.findall(r"`([^`]+)`", row)}
    begins = next(iter(k for k in found if k == "automatic_failover"), "")
    return found | {begins + k.removeprefix("…") for k in found if k.startswith("…")}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_each_event_has_a_row(path: Path) -> None:
    known = documented()
    for line, kind in kinds(source_of(path).nodes):
        assert SNAKE_CASE.fullmatch(kind), f"line {line}: a text and no kind: {kind}"
        assert kind in known, f"line {line}: {kind} is not on {PAGE.name}"


def test_the_law_sees_a_kind_that_is_missing() -> None:
    tree = ast.parse('observe.event("a_kind", x=1)\nself._events.once("other" if x else "third", t, i)')
    assert [kind for _, kind in kinds(ast.walk(tree))] == ["a_kind", "other", "third"]
    assert {"error", "automatic_failover_ended"} <= documented()
