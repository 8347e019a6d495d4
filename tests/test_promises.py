"""Every promise of docs/explanation/promises.md has tests that exist and name it, and no other is made.

So has every row of docs/explanation/threat-model.md about what an attacker can do.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
import re
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PROMISED = (ROOT / "docs/explanation/promises.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/internal/promise-tests.md").read_text(encoding="utf-8")
THREATS = (ROOT / "docs/explanation/threat-model.md").read_text(encoding="utf-8")
SHOWN = (ROOT / "docs/internal/threat-model-tests.md").read_text(encoding="utf-8")
FIRST = "## What can be written to"
"""What precedes it are decisions: what is protected, and who is trusted."""
ID = re.compile(r"\bP\d+\b")
TRIED = "## What the promises of failover and failback were tried against"


class Promise(NamedTuple):
    """A row of the page."""

    id: str
    state: str
    tests: tuple[str, ...]


def promises(page: str) -> list[Promise]:
    found = []
    for line in page.splitlines():
        if re.match(r"\| P\d+ \|", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.append(Promise(cells[0], cells[1], tuple(re.findall(r"`(\S+?::\S+?)`", cells[2]))))
    return found


@cache
def described(path: Path) -> dict[str, str]:
    """Each test of a file with its docstring and the comment right above it; "" is the module's docstring."""
    text = path.read_text(encoding="utf-8")
    lines, tree = text.splitlines(), ast.parse(text)
    found = {"": ast.get_docstring(tree) or ""}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            above = lines[first - 1] if first and lines[first - 1].startswith("#") else ""
            found[node.name] = f"{above}\n{ast.get_docstring(node) or ''}"
    return found


PROMISES = promises(PAGE)
KEPT = [p for p in PROMISES if p.state == "kept"]


def test_the_ids_count_up():
    assert [p.id for p in PROMISES] == [f"P{n}" for n in range(1, len(PROMISES) + 1)]
    assert {p.state for p in PROMISES} <= {"kept", "not yet"}
    assert len(PROMISES) == PAGE.count("\n| P"), "a row that is not read"


def test_users_read_the_same_promises():
    rows, tried = (re.findall(r"^\| (P\d+) \|", part, re.MULTILINE) for part in PROMISED.split(TRIED))
    assert sorted(rows) == sorted(p.id for p in PROMISES)
    assert tried == [row for row in rows if row in tried], "each once, in the same order"
    moves_clients = PROMISED.partition(TRIED)[0].partition("Failover and failback:")[2]
    assert set(tried) == set(re.findall(r"^\| (P\d+) \|", moves_clients, re.MULTILINE))


@pytest.mark.parametrize("promise", KEPT, ids=lambda p: p.id)
def test_a_kept_promise_has_tests_that_name_it(promise: Promise):
    assert promise.tests
    for test in promise.tests:
        path, name = test.split("::")
        said = described(ROOT / path)
        assert name in said, f"{test} does not exist"
        assert promise.id in ID.findall(said[name]), f"{test} does not name {promise.id}"


def test_what_is_not_there_yet_names_no_test():
    assert not [p.id for p in PROMISES if p.state == "not yet" and p.tests]


def test_tests_name_no_other_promise():
    known = {p.id for p in PROMISES}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, said in described(path).items():
            assert set(ID.findall(said)) <= known, f"{path.relative_to(ROOT)}::{name}"


def test_a_test_that_names_a_kept_promise_is_on_the_page():
    kept = {p.id: p.tests for p in KEPT}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, said in described(path).items():
            for promise in set(ID.findall(said)) & set(kept) if name else ():
                assert f"{path.relative_to(ROOT).as_posix()}::{name}" in kept[promise]


@cache
def in_the_long_runs(path: Path) -> frozenset[str]:
    """The tests of a file that `make test` leaves out."""
    return frozenset(
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and {ast.unparse(d) for d in node.decorator_list} & {"pytest.mark.soak", "pytest.mark.wide"}
    )


@pytest.mark.parametrize("promise", KEPT, ids=lambda p: p.id)
def test_make_test_has_a_test_of_each_promise(promise: Promise):
    tests = [t.split("::") for t in promise.tests]
    assert [name for path, name in tests if name not in in_the_long_runs(ROOT / path)]


def rows(page: str) -> list[list[str]]:
    """The cells of all tables, without their heads."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    heads = {n + side for n, line in enumerate(lines) if line.startswith("| ---") for side in (-1, 0)}
    return [re.split(r" \| ", line.strip("| ")) for n, line in enumerate(lines) if n not in heads]


def test_every_row_of_the_threat_model_has_tests():
    stated = [cells[0] for cells in rows(THREATS.partition(FIRST)[2])]
    assert stated == [cells[0] for cells in rows(SHOWN)]
    assert len(stated) > 30


def test_the_tests_of_the_threat_model_exist():
    for name, tests in rows(SHOWN):
        found = re.findall(r"`(\S+?)::(\S+?)`", tests)
        assert found, name
        assert [t for t in found if t[1] not in described(ROOT / t[0])] == []
