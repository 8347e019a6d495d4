"""Each refusal has a page that quotes it, of a failover as of a replay; the machine's page is the table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
import re

import pytest

from drkit.failover import picture
from drkit.failover.checks.preconditions import GATES
from drkit.topic_sync import rules as topic_rules

ROOT = Path(__file__).parents[3]
KINDS = ("failover-*.md", "reprotect-*.md", "replay-*.md", "export-*.md")
FOUND = [p for kind in KINDS for p in sorted((ROOT / "runbooks").glob(kind))]
PAGES = {p.stem: p.read_text(encoding="utf-8") for p in FOUND}
REFUSALS = {
    "Refused",
    "RunLocked",
    "FlowPromoted",
    "AbortedAtSource",
    "ReplayTaken",
    "Undecided",
    "NoFlow",
    "ExportAltered",
    "NotKept",
}


def sentence(node: ast.expr) -> str:
    """A text as a page has it: for each value in it a dot or three."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr), ast.dump(node)
    return "".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values)


def refusals(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFUSALS:
            yield sentence(node.args[0])


FILES = [
    *sorted((ROOT / "drkit/failover").rglob("*.py")),
    *sorted((ROOT / "drkit/replay").rglob("*.py")),
    *sorted((ROOT / "drkit/export").rglob("*.py")),
    ROOT / "drkit/cli/actions/replay.py",
    Path(str(topic_rules.__file__)),
]
SAID = sorted({s for path in FILES for s in refusals(path)} - {"the target cannot hold … replicas"})


@pytest.mark.parametrize("said", SAID)
def test_every_refusal_has_a_page_that_quotes_it(said: str) -> None:
    pages = [name for name, text in PAGES.items() if f"> {said}\n" in text]
    assert len(pages) == 1, f"pages with: > {said}"


@pytest.mark.parametrize("gate", GATES, ids=lambda g: g.name)
def test_every_gate_has_its_page(gate: object) -> None:
    assert getattr(gate, "name") in PAGES  # noqa: B009


@pytest.mark.parametrize("name", PAGES)
def test_a_page_quotes_only_what_is_said(name: str) -> None:
    quoted = re.findall(r"^> (.+)$", PAGES[name], re.MULTILINE)
    assert quoted
    assert set(quoted) <= set(SAID)
    assert "## What to do" in PAGES[name]
    assert "```sh\ndrkit " in PAGES[name]


def test_the_page_of_the_machine_is_the_table() -> None:
    page = (ROOT / "docs/explanation/failover.md").read_text(encoding="utf-8")
    assert page.count("<!-- generated:") == 7
    assert picture.filled(page) == page, "run: python -m drkit.failover.picture"
