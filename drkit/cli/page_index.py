"""The index of all that ``drkit explain`` prints: pages, and the codes and words in their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
import re
from typing import Final, NamedTuple

import drkit
from drkit.catalogue import ERRORS
from drkit.catalogue.entry import PAGE, with_dots

_PACKAGE: Final = Path(drkit.__file__).parent
_INSTALLED: Final = _PACKAGE / "pages"
ROOT: Final = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
"""The folder of the pages: in an installed drkit within the package, in a source tree beside it."""
_TITLE: Final = re.compile(r"^(?:# |title: )(.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NAME: Final = re.compile(r"`([^`]+)`|([^`,]+)")


class IndexEntry(NamedTuple):
    """One thing that can be explained."""

    name: str
    kind: str
    sentence: str
    page: str
    """Path below :data:`ROOT`."""
    text: str
    """Markdown."""
    aliases: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """A name that no other entry has."""
        return f"{self.kind}/{self.name}"

    @property
    def is_page(self) -> bool:
        """Whether the text is a whole file."""
        return self.page in self.aliases


class _Pages(NamedTuple):
    """Each file is an entry; its name also counts without the prefix."""

    kind: str
    heading: str
    pattern: str
    prefix: str = ""

    def entries(self) -> Iterator[IndexEntry]:
        """Yield one entry for each file."""
        for path in sorted(ROOT.glob(self.pattern)):
            page, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            name = path.parent.name if path.stem == "README" else path.stem
            title = _TITLE.search(text)
            fenced = text if path.suffix == ".md" else f"```{path.suffix[1:]}\n{text}\n```"
            folder = f"{path.parent.name}/{path.stem}"
            aliases = (page, path.name, folder, name.removeprefix(self.prefix))
            sentence = plain(_first_sentence(title[1])) if title else name
            yield IndexEntry(name, self.kind, sentence, page, fenced, aliases)


class _Errors(NamedTuple):
    """Each code of the catalogue is an entry, with the runbook about it."""

    kind: str
    heading: str

    def entries(self) -> Iterator[IndexEntry]:
        """Yield one entry for each code."""
        for code, error in ERRORS.items():
            row = {
                "what happened": with_dots(error.sentence),
                "exit code": str(error.exit_code),
                "what to do": with_dots(error.hint),
            }
            page = f"runbooks/{error.page}.md" if error.page else PAGE.as_posix()
            about = f"\n\n---\n\n{(ROOT / page).read_text(encoding='utf-8')}" if error.page else ""
            text = f"# `{code}`\n\n{_facts(row, {code})}{about}"
            yield IndexEntry(code, self.kind, plain(row["what happened"]), page, text)


class _Rows(NamedTuple):
    """Each code in the first columns of a page's tables is an entry."""

    kind: str
    heading: str
    page: str
    names: tuple[str, ...]
    """Heads of the columns with names."""
    sentence: str
    """Head of the column with the sentence."""

    def entries(self) -> Iterator[IndexEntry]:
        """Yield one entry for each name, with all its rows."""
        page, text = _read(self.page)
        rows: dict[str, list[dict[str, str]]] = {}
        for section, row in _table_rows(text):
            if not {*self.names, self.sentence} <= set(row):
                continue
            for name in _names([row[head] for head in self.names]):
                whole = f"{section}.{name}" if self.kind == "setting" else name
                rows.setdefault(whole, []).append(row)
        for name, found in rows.items():
            sentence = plain(found[0][self.sentence]) if len(found) == 1 else f"{len(found)} cases"
            alias = name.rpartition(".")[2]
            facts = "\n\n---\n\n".join(_facts(row, {name, alias}) for row in found)
            yield IndexEntry(name, self.kind, sentence, page, f"# `{name}`\n\n{facts}", (alias,))


class _Sections(NamedTuple):
    """Each section of a page is an entry."""

    kind: str
    heading: str
    page: str

    def entries(self) -> Iterator[IndexEntry]:
        """Yield one entry for each section."""
        page, text = _read(self.page)
        for section in text.split("\n## ")[1:]:
            title, _, body = section.partition("\n")
            sentence = plain(_first_sentence(body))
            name = title.strip("`")
            yield IndexEntry(name, self.kind, sentence, page, f"# `{name}`\n\n{body.strip()}")


SOURCES: Final = (
    _Pages("refusal", "Refusals of a failover", "runbooks/failover-*.md", "failover-"),
    _Pages("hold", "Holds of drkit watch", "runbooks/hold-*.md", "hold-"),
    _Pages("return", "Refusals of a return", "runbooks/reprotect-*.md", "reprotect-"),
    _Pages("replay", "Refusals of a replay", "runbooks/replay-*.md", "replay-"),
    _Pages("export", "Refusals of an export", "runbooks/export-*.md", "export-"),
    _Pages("pair", "Alarms of a pair", "runbooks/pair-*.md", "pair-"),
    _Pages("drill", "Alarms of drills", "runbooks/drill-*.md", "drill-"),
    _Pages("how-to", "How to", "docs/how-to/*.md"),
    _Pages("tutorial", "Tutorials", "docs/tutorial/*.md"),
    _Pages("explanation", "Explanation", "docs/explanation/*.md"),
    _Pages("reference", "Reference", "docs/reference/*.*"),
    _Pages("runbook", "Other runbooks", "runbooks/*.md"),
    _Rows("event", "Events", "events", ("kind",), "what happened"),
    _Rows("fault", "Faults", "status", ("fault",), "what"),
    _Sections("alert", "Alerts", "alerts"),
    _Rows(
        "verdict",
        "Verdicts and their reasons",
        "detection",
        ("verdict", "reason"),
        "condition (the first match wins)",
    ),
    _Rows("vote", "What an observer sees", "detection", ("an observer sees",), "its vote says"),
    _Rows("state", "States of a pair and of groups", "status", ("state",), "means"),
    _Rows("alarm", "Alarms in drkit status", "status", ("alarm",), "means"),
    _Rows("column", "Columns in drkit status", "status", ("column",), "meaning"),
    _Sections("class", "Classes of drkit divergence", "divergence-classes"),
    _Rows("exit-code", "Exit codes", "exit-codes", ("code",), "means"),
    _Rows("setting", "Settings", "configuration", ("key",), "meaning"),
    _Rows("metric", "Metrics", "metrics", ("metric",), "meaning"),
    _Rows("word", "Glossary", "glossary", ("word",), "meaning"),
    _Errors("error", "Errors"),
    _Pages("scenario", "Chaos scenarios", "chaos/*.*"),
    _Pages("decision", "Decisions", "docs/**/decisions/*.md"),
    _Pages("page", "Other pages", "docs/**/*.md"),
)
"""In the order of the list, and of what is printed first if several have a name; errors precede others."""


@cache
def entries() -> tuple[IndexEntry, ...]:
    """Return all entries; a page belongs to the first source that has it."""
    found: dict[str, IndexEntry] = {}
    for source in SOURCES:
        for entry in source.entries():
            found.setdefault(entry.page if isinstance(source, _Pages) else entry.address, entry)
    return tuple(found.values())


def look_up(asked: str) -> list[IndexEntry]:
    """Return the entries with a name, the one to print first at the beginning.

    Case, ``_``, blanks and the suffix of a file do not count.
    """
    return _by_name().get(_key(asked), [])


def look_up_page(page: str) -> IndexEntry | None:
    """Return the entry of a file, given its path below :data:`ROOT`."""
    return next((entry for entry in look_up(page) if entry.page == page), None)


def command_for(entry: IndexEntry) -> str:
    """Return the command that prints an entry."""
    return f"drkit explain {entry.name if look_up(entry.name)[0] is entry else entry.address}"


def plain(text: str) -> str:
    """Return a Markdown text of one line without its marks."""
    return _LINK.sub(r"\1", text).replace("`", "").replace("**", "").strip()


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"[.:]?$|\. ", paragraph, maxsplit=1)[0]


@cache
def _by_name() -> dict[str, list[IndexEntry]]:
    found: dict[str, list[IndexEntry]] = {}
    for entry in sorted(entries(), key=lambda entry: entry.kind != "error"):
        for key in dict.fromkeys(map(_key, (entry.name, entry.address, *entry.aliases))):
            found.setdefault(key, []).append(entry)
    return found


def _key(name: str) -> str:
    bare = name.strip().strip("`").lower().removesuffix(".md").removesuffix(".yaml")
    return re.sub(r"[_\s]+", "-", bare)


def _read(stem: str) -> tuple[str, str]:
    (path,) = [p for folder in ("docs", "runbooks") for p in (ROOT / folder).rglob(f"{stem}.md")]
    return path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def _table_rows(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of all tables, each with the section that it is in, without brackets."""
    section, heads = "", list[str]()
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.strip("# `[]")
        if not line.startswith("|"):
            heads = []
            continue
        cells = [cell.strip().replace("¦", "|") for cell in line.strip("|").replace("\\|", "¦").split("|")]
        if not heads:
            heads = cells
        elif not line.startswith(("| -", "|-")):
            yield section, dict(zip(heads, cells, strict=False))


def _names(cells: Iterable[str]) -> Iterator[str]:
    for cell in cells:
        first = ""
        for code, word in _NAME.findall(_LINK.sub(r"\1", cell)):
            if name := (code or word).strip():
                first = first or name
                yield first + name[1:] if name.startswith("…") else name


def _facts(row: dict[str, str], names: set[str]) -> str:
    shown = {head: cell for head, cell in row.items() if plain(cell) not in {"", "–", *names}}
    return "\n".join(f"- **{head}:** {cell}" for head, cell in shown.items())
