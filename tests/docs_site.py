"""The documentation site: `make docs` builds it from `docs/`, `runbooks/` and `chaos/README.md` with MkDocs.

`docs/README.md` and the other index pages are its navigation. Pages keep their paths in the repository as
source paths, so a link works on GitHub and in the site. ``python -m tests.docs_site FOLDER`` checks a built
site: a browser must load nothing from another host.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
import os
from pathlib import Path
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT: Final = Path(__file__).parents[1]
HOME: Final = "docs/README.md"
Entry: TypeAlias = "str | dict[str, str | list[Entry]]"
"""A page, a page with its title, or a section with its entries, as MkDocs takes them."""
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_CODE: Final = re.compile(r"`[^`]*`")
_GROUP: Final = re.compile(r"^([A-Z][^.`]*):$")
_LOADED: Final = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "object": "data",
}
"""Tags whose address a browser loads by itself, with the attribute that has it."""
_IN_STYLE: Final = re.compile(r"(?:url\(|@import )\s*['\"]?((?:https?:)?//[^'\")\s]+)")


def navigation(index: str = HOME) -> list[Entry]:
    """Return MkDocs' navigation, read from an index page and the index pages that it links to.

    A second-level heading is a section, a line ``Words:`` a group in it, and a link in a list or in a table
    an entry.

    :param index: path of the page in the repository
    """
    sections: list[Entry] = []
    entries = section = sections
    for line in (ROOT / index).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            entries = section = []
            sections.append({_plain(line[3:]): section})
        elif group := _GROUP.match(line):
            entries = []
            section.append({group[1]: entries})
        elif line.startswith(("- ", "| ")) and (section is not sections or index != HOME):
            entries += _entries(line, index)
    return sections


def _entries(line: str, index: str) -> Iterator[Entry]:
    for title, link in _LINK.findall(line):
        path = os.path.normpath(f"{Path(index).parent}/{link}")
        if Path(path).name == "README.md" and path != "chaos/README.md":
            yield {_plain(title): [path, *navigation(path)]}
        elif path.endswith(".md"):
            yield path if title.isdigit() else {_plain(title): path}


def _plain(title: str) -> str:
    return title.replace("`", "")


def pages_in(entries: list[Entry]) -> Iterator[str]:
    """Yield the path of every page of a navigation."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        for below in entry.values():
            if isinstance(below, str):
                yield below
            else:
                yield from pages_in(below)


def linked_files(pages: list[str]) -> set[str]:
    """Return the files outside `docs/` that pages link to, as paths in the repository."""
    found = set[str]()
    for page in pages:
        for _, link in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            path = os.path.normpath(f"{Path(page).parent}/{link}")
            if not path.startswith(("docs/", "..")) and (ROOT / path).is_file():
                found.add(path)
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation, and anchors of headings as GitHub makes them."""
    from pymdownx.slugs import slugify  # noqa: PLC0415  (only in the environment of `make docs`)

    config.nav = [{"Home": HOME}, *navigation()]
    config.mdx_configs["toc"] = {"permalink": True, "slugify": slugify(case="lower")}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Give every file its path in the repository, and add the files that pages link to."""
    from mkdocs.structure.files import File, Files, InclusionLevel  # noqa: PLC0415  (as above)

    def of_repository(path: str, **options: Any) -> File:
        return File(path, str(ROOT), config.site_dir, config.use_directory_urls, **options)

    own = [file for file in files if file.src_dir == config.docs_dir]
    theme = [file for file in files if file.src_dir != config.docs_dir]
    pages = list(pages_in(config.nav or []))
    outside = {page for page in pages if not page.startswith("docs/")} | linked_files(pages)
    moved = [of_repository(f"docs/{file.src_uri}", dest_uri=file.dest_uri) for file in own]
    linked = [of_repository(path, inclusion=InclusionLevel.INCLUDED) for path in sorted(outside)]
    return Files([*theme, *moved, *linked])


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Take back the escapes of bars in code in tables: GitHub needs them, Python-Markdown shows them."""
    rows = re.compile(r"^\|.*$", re.MULTILINE)
    return rows.sub(lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), markdown)


class _Loaded(HTMLParser):
    """Collects the addresses that a browser loads for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _LOADED and given.get("rel") != "canonical":
            self.found.append(given.get(_LOADED[tag]) or "")
        if tag == "pre" and "mermaid" in (given.get("class") or ""):
            self.found.append("https://unpkg.com/mermaid: the theme loads it for a diagram")
        self.found += _IN_STYLE.findall(given.get("style") or "")


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return what pages and styles of a built site load from another host, with the file that does."""
    found = []
    for file in sorted(site.rglob("*")):
        if file.suffix == ".html":
            parser = _Loaded()
            parser.feed(file.read_text(encoding="utf-8"))
            addresses = parser.found
        elif file.suffix == ".css":
            addresses = _IN_STYLE.findall(file.read_text(encoding="utf-8"))
        else:
            continue
        found += [f"{file.relative_to(site)}: {a}" for a in addresses if re.match(r"(https?:)?//", a)]
    return found


def main(site: Path) -> int:
    """Check a built site, print what it loads from elsewhere, and return the exit code."""
    pages, found = len(list(site.rglob("*.html"))), loaded_from_elsewhere(site)
    for line in found:
        sys.stderr.write(f"loaded from another host: {line}\n")
    sys.stdout.write(f"{site}: {pages} pages, {len(found)} files loaded from other hosts\n")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
