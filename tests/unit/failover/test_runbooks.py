"""Each refusal has a page that quotes it, of a failover as of a replay; the machine's page is the table."""

from __future__ import annotations

from pathlib import Path
import re

import pytest

from drkit.catalogue import ERRORS, export, failback, failover, fence, journal, old_primary, replay
from drkit.catalogue.entry import PAGE, with_dots
from drkit.errors import Refused
from drkit.failover.checks.preconditions import GATES
from tests.pages import failover as picture
from tests.pages.errors import errors_page

ROOT = Path(__file__).parents[3]
KINDS = ("failover-*.md", "reprotect-*.md", "replay-*.md", "export-*.md")
FOUND = [p for kind in KINDS for p in sorted((ROOT / "runbooks").glob(kind))]
PAGES = {p.stem: p.read_text(encoding="utf-8") for p in FOUND}
AREAS = (export, failback, failover, fence, journal, old_primary, replay)
"""Of the catalogue: every refusal of a failover, a failback, a replay or an export has a page."""
NO_PAGE = {"clients_elsewhere", "drill_lock_held"}


PAGED = {code: entry for code, entry in ERRORS.items() if entry.page}
REFUSED = {
    code: entry
    for area in AREAS
    for code, entry in area.ERRORS.items()
    if entry.exit_code == Refused.exit_code
}


@pytest.mark.parametrize("code", REFUSED)
def test_every_refusal_has_a_page(code: str) -> None:
    assert REFUSED[code].page in PAGES, f"no page for {code}"


@pytest.mark.parametrize("code", PAGED)
def test_a_page_quotes_its_sentence(code: str) -> None:
    page = (ROOT / "runbooks" / f"{PAGED[code].page}.md").read_text(encoding="utf-8")
    assert f"> {with_dots(PAGED[code].sentence)}\n" in page


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_has_its_page(gate: str) -> None:
    assert gate in PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_quotes_only_what_is_said(name: str) -> None:
    said = re.findall(r"^> (.+)$", PAGES[name], re.MULTILINE)
    assert said
    assert set(said) <= {with_dots(entry.sentence) for entry in PAGED.values() if entry.page == name}
    assert "## What to do" in PAGES[name]
    assert "```sh\ndrkit " in PAGES[name]


def test_the_page_of_the_machine_is_the_table() -> None:
    page = (ROOT / "docs/explanation/failover.md").read_text(encoding="utf-8")
    assert page.count("<!-- generated:") == 7
    assert picture.filled(page) == page, "run: python -m tests.pages.failover"


def test_the_page_of_errors_is_the_catalogue() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page == errors_page(), "run: python -m tests.pages.errors"
