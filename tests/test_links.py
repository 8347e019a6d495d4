"""Every link of a page leads to a file, and to a heading in it; so does every page that the source names."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
import re

import pytest

ROOT = Path(__file__).parents[1]
OLD_NAMES = ROOT / "CHANGELOG.md"
"""Names pages as they were called at the time of each entry."""
PAGES = sorted({
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "runbooks").glob("*.md"),
    *(ROOT / "docker").rglob("*.md"),
} - {OLD_NAMES})  # fmt: skip
SOURCES = sorted({
    *(ROOT / "drkit").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "docker").rglob("*.yaml"),
})  # fmt: skip
READERS = ("tutorial", "how-to", "reference", "explanation")
MOST_PAGES = 20
"""For one kind of reader: what an index can list and one can look through."""
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\b((?:docs|runbooks)/[\w/.-]+\.(?:md|toml))\b(#[\w-]+)?")


def anchors(text: str) -> set[str]:
    """What a link may name after ``#`` in a page, as GitHub makes it of the headings."""
    seen = Counter[str]()
    found = set[str]()
    without = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} +(.*?) *$", without, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@cache
def anchors_of(page: Path) -> set[str]:
    return anchors(page.read_text(encoding="utf-8"))


def broken(text: str, folder: Path, page: Path) -> list[str]:
    """Links of a text that lead nowhere. Code blocks have none."""
    without = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    wrong = []
    for link in LINK.findall(without):
        name, _, anchor = link.partition("#")
        if "://" in name or name.startswith("mailto:"):
            continue
        target = (folder / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path):
    assert broken(page.read_text(encoding="utf-8"), page.parent, page) == []


def test_every_page_that_the_source_names_is_there():
    wrong = []
    for source in SOURCES:
        for name, anchor in NAMED.findall(source.read_text(encoding="utf-8")):
            page = ROOT / name
            if not page.is_file() or (anchor and anchor[1:] not in anchors_of(page)):
                wrong.append(f"{source.relative_to(ROOT)}: {name}{anchor}")
    assert wrong == []


@pytest.mark.parametrize("reader", READERS)
def test_a_folder_of_pages_can_be_looked_through(reader: str):
    assert 0 < len(list((ROOT / "docs" / reader).glob("*.md"))) <= MOST_PAGES


def test_what_leads_nowhere_is_seen():
    page = ROOT / "docs" / "README.md"
    text = "# A\n[x](nowhere.md) [y](README.md#nothing) [z](#a-b) [w](https://a.example/x)\n"
    assert broken(text, page.parent, page) == ["nowhere.md", "README.md#nothing", "#a-b"]
    assert anchors("# One `two`, three\n## A b\n## A b\n") == {"one-two-three", "a-b", "a-b-1"}
