"""The documentation site: its navigation has every page, and it loads nothing from another host."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.docs_site import HOME, ROOT, loaded_from_elsewhere, main, navigation, pages_in

NAVIGATION = navigation()


def test_every_page_is_reachable_from_the_navigation():
    pages = {*(ROOT / "docs").rglob("*.md"), *(ROOT / "runbooks").glob("*.md"), ROOT / "chaos/README.md"}
    listed = Counter(pages_in(NAVIGATION))
    assert {page.relative_to(ROOT).as_posix() for page in pages} - {HOME} <= set(listed)
    assert [page for page, count in listed.items() if count > 1 or not (ROOT / page).is_file()] == []


def test_users_come_first_and_developers_last():
    sections = [title for entry in NAVIGATION if isinstance(entry, dict) for title in entry]
    assert sections == ["Tutorial", "How-to", "Reference", "Explanation", "Runbooks", "Internal"]


def test_a_page_for_users_has_no_diagram_that_the_theme_would_load_from_another_host():
    for page in pages_in(NAVIGATION):
        assert "```mermaid" not in (ROOT / page).read_text(encoding="utf-8"), page


@pytest.mark.parametrize("line", [
    '<script src="https://cdn.example/x.js"></script>', '<link rel="stylesheet" href="//fonts.example/x">',
    '<img src="http://a.example/x.png">', '<p style="background: url(https://a.example/x)">',
    '<pre class="mermaid">a</pre>',
])  # fmt: skip
def test_what_a_page_loads_from_another_host_is_found(tmp_path: Path, line: str):
    (tmp_path / "index.html").write_text(line, encoding="utf-8")
    assert len(loaded_from_elsewhere(tmp_path)) == 1
    assert main(tmp_path) == 1


def test_links_and_own_files_are_allowed(tmp_path: Path):
    (tmp_path / "index.html").write_text('<a href="https://a.example">x</a><script src="x.js"></script>')
    (tmp_path / "site.css").write_text("a { background: url(x.png) }")
    assert main(tmp_path) == 0
    (tmp_path / "site.css").write_text("@import 'https://fonts.example/x.css'")
    assert loaded_from_elsewhere(tmp_path) == ["site.css: https://fonts.example/x.css"]


def test_an_empty_site_fails(tmp_path: Path):
    assert main(tmp_path) == 1
