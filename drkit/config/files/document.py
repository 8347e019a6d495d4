"""A configuration file as it was read, with the line of each value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
import re
import tomllib
from typing import Any, Final

from drkit.config.files.interpolate import Problem, place


@dataclass
class Document:
    """Tables in the form of drkit.toml, whatever the format of the file.

    :param labels: path → how the user wrote it, for messages, as in ``line 7: A->B.topics``
    :param lines: path → line of the setting or table in drkit.toml, from 1
    :param origins: path → origin of its value, as in ``mm2.properties:7``
    :param references: path → the ``${env:NAME}`` or ``${file:PATH}`` that its value came from
    :param unresolved: path → a reference in its value that could not be resolved
    :param beside: flags and variables that set single settings, as in ``--set flows.A->B.tasks``
    :param notes: settings that are accepted and have no effect, or none yet
    """

    tables: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    unresolved: dict[str, str] = field(default_factory=dict)
    beside: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def called(self, at: str) -> str:
        """The user's own words for a path; the path itself if they are unknown."""
        while at not in self.labels:
            if not at.endswith("]") or (at := at[: at.rfind("[")]) == "flows":
                return ""
        return self.labels[at]

    def line_of(self, at: str) -> int:
        """Return the line of a setting, or of the nearest table or array around it; 0: unknown."""
        around = (known for known in self.lines if at == known or at.startswith((f"{known}.", f"{known}[")))
        return self.lines.get(max(around, key=len, default=""), 0)

    def located(self, at: str, file: str) -> str:
        """Return a path with its file and line; a flag or variable is in no file."""
        label = self.called(at) or at
        if label in self.beside:
            return label
        line = self.line_of(at)
        return ": ".join(part for part in (f"{file}:{line}" if line else file, label) if part)


_TOKEN: Final = re.compile(
    r"""\"{3}(?:\\.|(?!\"{3}).)*\"{3,5}|\'{3}(?:(?!\'{3}).)*\'{3,5}"""  # strings of several lines
    r"""|\"(?:\\.|[^\"\\\n])*\"|\'[^\'\n]*\'|\#[^\n]*|[\[\]{}\n]|[^\"\'\#\[\]{}\n]+""",
    re.DOTALL,
)
"""The parts of a statement on which its end depends."""
_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]].*?)\]\]?\s*(#.*)?")
_BRACKETS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_NOTHING: Final = re.compile(r"\s*(#.*)?")


def lines_of(text: str) -> dict[str, int]:
    """Path of each table and setting → its line, from 1.

    Entries of an inline table or array have the line on which their statement begins.

    :param text: a whole file that Python's parser has accepted
    """
    lines: dict[str, int] = {}
    counters: dict[str, int] = {}
    table = ""
    for number, statement in _statements(text.replace("\r\n", "\n")):
        header = _HEADER.fullmatch(statement)
        if header:
            opened = _opened(header[1], counters, repeated=statement.lstrip().startswith("[["))
            for path in opened:
                lines.setdefault(path, number)
            table = opened[-1]
        else:
            for path in _places(tomllib.loads(statement), table):
                lines.setdefault(path, number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Headers and assignments with their first lines; each ends with a line on which no bracket is open."""
    parts: list[str] = []
    first = number = 1
    depth = 0
    for match in _TOKEN.finditer(text + "\n"):
        part = match[0]
        depth += _BRACKETS.get(part, 0)
        if part == "\n" and not depth:
            statement = "".join(parts)
            if not _NOTHING.fullmatch(statement):
                yield first, statement
            parts.clear()
            number += 1
            first = number
        else:
            parts.append(part)
            number += part.count("\n")


def _opened(header: str, counters: dict[str, int], *, repeated: bool) -> list[str]:
    """Return the paths of a table and of all around it, the table's last; one of many has its number."""
    steps = list(_path(tomllib.loads(f"[{header}]")))
    path, opened = "", []
    for number, step in enumerate(steps):
        path = place(path, step)
        opened.append(path)
        if repeated and number == len(steps) - 1:
            counters[path] = counters.get(path, -1) + 1
        if path in counters:
            path = place(path, counters[path])
            opened.append(path)
    return opened


def _path(tables: dict[str, Any]) -> Iterator[str]:
    while tables:
        ((key, tables),) = tables.items()
        yield key


def _places(value: Any, path: str) -> Iterator[str]:
    if path:
        yield path
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list) and any(isinstance(v, dict) for v in value):
        children = list(enumerate(value))
    for key, child in children:
        yield from _places(child, place(path, key))
