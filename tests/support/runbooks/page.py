"""Read a page of ``runbooks/``: the sentences it is about, and the commands it gives, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
import re
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

RUNBOOKS: Final = Path(__file__).parents[3] / "runbooks"
_SHELLS: Final = {"sh", "console"}
_ONCE: Final = re.compile(r"(drkit watch --once) \d+")
_REMARK: Final = re.compile(r"\s+# .*")


class PageCommand(NamedTuple):
    """A command line of a page."""

    line: str
    """As printed, without the prompt."""
    branch: str
    """The condition of its ``# if …`` comment; empty: every branch needs it."""


class Page(NamedTuple):
    """A page."""

    name: str
    text: str
    sentences: tuple[str, ...]
    """Quoted sentences; of a page that quotes none, what it has in backquotes before its first section."""
    commands: tuple[PageCommand, ...]

    def branches(self) -> set[str]:
        """Return the conditions of all branches."""
        return {command.branch for command in self.commands} - {""}

    def lines(self, branches: Collection[str]) -> list[str]:
        """Return the command lines to type for these branches."""
        unknown = set(branches) - self.branches()
        assert not unknown, f"{self.name} has no branch {unknown}"
        return [c.line for c in self.commands if not c.branch or c.branch in branches]


@cache
def page_named(name: str) -> Page:
    """Read a page by its name, without ``.md``."""
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").parse(text)
    quoted = tuple(line for token in _quoted(tokens) for line in token.content.splitlines())
    blocks = (t.content for t in tokens if t.type == "fence" and t.info.strip() in _SHELLS)
    commands = tuple(command for block in blocks for command in _commands(block))
    return Page(name, text, quoted or _named_first(tokens), commands)


def filled(line: str, values: Mapping[str, str]) -> str:
    """Return a command with values instead of the page's words; looks with an end are short.

    :param values: word of the page → what is typed instead
    """
    words = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    if words:
        line = re.sub(rf"(?<![\w-])({words})(?![\w-])", lambda found: values[found[0]], line)
    return _ONCE.sub(r"\1 1", line)


def page_names() -> list[str]:
    """Return the names of all pages."""
    return sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.stem != "README")


def _quoted(tokens: list[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        depth += (token.type == "blockquote_open") - (token.type == "blockquote_close")
        if depth and token.type == "inline":
            yield token


def _named_first(tokens: list[Token]) -> tuple[str, ...]:
    found: list[str] = []
    for before, token in pairwise(tokens):
        if before.type == "heading_open" and before.tag == "h2":
            break
        if token.type == "inline" and before.type == "paragraph_open":
            found += [child.content for child in token.children or () if child.type == "code_inline"]
    return tuple(words for words in found if not words.startswith("drkit "))


def _commands(block: str) -> Iterator[PageCommand]:
    """Split a block; the comment ``# if …`` is about the lines up to the next one, or to a blank line."""
    branch = ""
    for line in block.replace("\\\n", " ").splitlines():
        text = line.strip().removeprefix("$ ")
        if not text:
            branch = ""
        elif text.startswith("# if "):
            branch = text.removeprefix("# if ")
        elif text.startswith("drkit "):
            yield PageCommand(_REMARK.sub("", text), branch)
