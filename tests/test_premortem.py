"""Every line of what could go wrong in a failback names a test that exists, or says why it has no test."""

from __future__ import annotations

import ast
from pathlib import Path
import re

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/internal/failback-hazards.md"
LINES = 55
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows(page: str) -> list[list[str]]:
    """The cells of the table's numbered lines."""
    lines = [line for line in page.splitlines() if re.match(r"\| \d+ \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def unproven(page: str) -> list[str]:
    """Lines whose last cell proves nothing: no test, one that does not exist, or no reason."""
    wrong = []
    for number, *_, proof in rows(page):
        named = NAMED.findall(proof)
        for file, test in named:
            path = ROOT / file
            tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.parse("")
            if test not in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}:
                wrong.append(f"{number}: there is no {file}::{test}")
        if not named and not re.match(r"none: .{20}", proof):
            wrong.append(f"{number}: {proof}")
    return wrong


def test_the_page_has_every_line() -> None:
    assert [int(cells[0]) for cells in rows(PAGE.read_text(encoding="utf-8"))] == [*range(1, LINES + 1)]


def test_each_line_is_proven_or_says_why_not() -> None:
    assert not unproven(PAGE.read_text(encoding="utf-8"))


def test_a_line_without_a_proof_is_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert unproven(page.replace("test_written_side.py::test_while", "test_written_side.py::test_never"))
    assert unproven(re.sub(r"none: [^|]*", "none ", page))
