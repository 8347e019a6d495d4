"""``drkit explain``: the page of a refusal, a hold or an event, from the installed drkit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import re
from typing import Final, NamedTuple

import drkit
from drkit.cli.render import emit
from drkit.cli.talk import say
from drkit.config.tables.closest import suggestion
from drkit.errors import Usage

_PACKAGE: Final = Path(drkit.__file__).parent
_INSTALLED: Final = _PACKAGE / "pages"
_PAGES: Final = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
"""In an installed drkit within the package, in a source tree beside it."""
_RUNBOOKS: Final = ("", "hold-", "failover-", "reprotect-", "replay-", "export-", "pair-", "drill-")
_TABLES: Final = (
    "docs/reference/events.md",
    "docs/explanation/detection.md",
    "docs/reference/status.md",
    "docs/how-to/standby.md",
)
_CLASSES: Final = "divergence-classes.md"
"""The page of the classes of ``drkit divergence``: a section for each."""
_QUOTED: Final = re.compile(r"^> (.+)$", re.MULTILINE)
"""What a page quotes: a sentence that drkit says."""
_DOTS: Final = re.compile(r"…|\.\.\.")
_VARIES: Final = re.compile(r"…|\.\.\.|\b\d[\d,.]*(?: \w+){0,2}?(?= (?:only|on|of|to|in)\b)|\b\d[\d,]*\b")
"""What varies in a sentence: a number with what it counts, such as ``3 records are``."""
_SOME: Final = r"\S.*"
"""What stands for ``…`` in a quoted sentence."""
_ENOUGH_WORDS: Final = 3
"""Words besides what varies, with which a part of a sentence names it."""
_NAMED_IN: Final = 2
"""Cells of a row, from its first, that name what the row is about."""


class Explanation(NamedTuple):
    """The explanation of a code."""

    page: str
    text: str


def explain(words: tuple[str, ...]) -> None:
    """Run ``drkit explain``."""
    if not words:
        emit([{"code": code, "meaning": meaning} for code, meaning in codes().items()])
        return
    asked = " ".join(words)
    found = list(pages_of(asked))
    if not found:
        raise Usage(
            "nothing_to_explain", where="drkit explain", asked=asked, suggestion=suggestion(asked, codes())
        )
    if len(found) > 1:
        say(f"{len(found)} explanations of '{asked}': {', '.join(each.page for each in found)}")
    for each in found:
        emit({"page": each.page})
        emit(each.text)


def codes() -> dict[str, str]:
    """Every code with its own page or row → its short meaning."""
    found = {page.stem: _text(page).partition("\n")[0].lstrip("# ") for page in _runbooks()}
    found |= {alert: text.partition("\n")[0] for alert, text in _alerts()}
    found |= {name: f"a class of drkit divergence: {text.partition(chr(10))[0]}" for name, text in _classes()}
    for code, row in _rows():
        found.setdefault(code, next(iter(list(row.values())[1:]), ""))
    return found


def pages_of(asked: str) -> Iterator[Explanation]:
    """The explanations of a code, or of a refusal that contains these words."""
    code = asked.strip().strip("`").lower()
    name = code.removeprefix("runbooks/").removesuffix(".md").replace("_", "-").replace(" ", "-")
    exact = {prefix + name for prefix in _RUNBOOKS}
    pages = [page for page in _runbooks() if page.stem in exact]
    if not pages:
        pages = _pages_with(" ".join(code.split()))
    for known, text in _classes():
        if known == code:
            yield Explanation(f"runbooks/{_CLASSES}", f"{known}\n\n{text}")
    for page in pages:
        yield Explanation(f"runbooks/{page.name}", _text(page).rstrip())
    scenario = _PAGES / "chaos" / ("README.md" if name == "chaos" else f"{name}.yaml")
    if scenario.is_file():
        yield Explanation(f"chaos/{scenario.name}", _text(scenario).rstrip())
    for alert, text in _alerts():
        if alert.lower() == code:
            yield Explanation("docs/how-to/alerts.md", f"{alert}\n\n{text}")
    rows: dict[str, list[str]] = {}
    for known, row in _rows():
        if known == name.replace("-", "_"):
            lines = [f"{head}: {cell}" for head, cell in row.items() if cell not in {"", "–"}]
            rows.setdefault(row.page, []).append("\n".join(lines))
    yield from (Explanation(page, "\n\n".join(texts)) for page, texts in rows.items())


def _pages_with(words: str) -> list[Path]:
    """The runbooks with some words, or that quote a sentence with such words.

    What varies is ``…`` in a quoted sentence; in what is asked it is a value, or ``…`` too.
    The first way that finds a page counts: the more exact ones come first.

    :param words: in lower case, with single blanks
    """
    if " " not in words:
        return []
    texts = {page: " ".join(_text(page).lower().split()) for page in _runbooks()}
    quoted = [(page, quote) for page in texts for quote in _QUOTED.findall(_text(page).lower())]
    asked = _pattern(words, _VARIES, ".*")
    says_enough = len(_VARIES.sub(" ", words).split()) >= _ENOUGH_WORDS
    ways = (
        [page for page, text in texts.items() if words in text],
        [page for page, quote in quoted if _pattern(quote, _DOTS, _SOME).fullmatch(words)],
        [page for page, quote in quoted if says_enough and asked.search(quote)],
        [page for page, quote in quoted if _pattern(quote, _DOTS, _SOME).search(words)],
    )
    return list(dict.fromkeys(next((found for found in ways if found), [])))


def _pattern(text: str, varies: re.Pattern[str], value: str) -> re.Pattern[str]:
    """A text as a pattern, with a pattern of its own for what varies in it."""
    return re.compile(value.join(map(re.escape, varies.split(text))))


class _Row(dict[str, str]):
    """A row of a table: head → cell."""

    page: str = ""


def _rows() -> Iterator[tuple[str, _Row]]:
    """Rows of the tables that name codes, each with every code that it names."""
    for name in _TABLES:
        heads: list[str] = []
        page = _PAGES / name
        for line in _text(page).splitlines() if page.is_file() else ():
            if not line.startswith("|"):
                heads = []
                continue
            cells = [cell.strip() for cell in line.strip("|").replace("\\|", "¦").split("|")]
            if not heads:
                heads = cells
            row = _Row(zip(heads, cells, strict=False))
            row.page = name
            for code in _codes_in(cells[:_NAMED_IN]):
                yield code, row


def _codes_in(cells: list[str]) -> Iterator[str]:
    for cell in cells:
        bare = cell.partition("](")[0].lstrip("[") if cell.startswith("[") else cell
        for part in bare.split(","):
            code = part.strip()
            if code.startswith("`") and code.endswith("`") and code.strip("`").isidentifier():
                yield code.strip("`")


def _alerts() -> Iterator[tuple[str, str]]:
    """Each alert with its section."""
    for section in _text(_PAGES / "docs/how-to/alerts.md").split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        yield name, text.strip()


def _classes() -> Iterator[tuple[str, str]]:
    """Each class of ``drkit divergence`` with its section."""
    for section in _text(_PAGES / "runbooks" / _CLASSES).split("\n## `")[1:]:
        name, _, text = section.partition("`\n")
        yield name, text.strip()


def _runbooks() -> list[Path]:
    return [page for page in sorted((_PAGES / "runbooks").glob("*.md")) if page.stem != "README"]


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")
