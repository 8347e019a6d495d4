"""Java's properties format, as ``java.util.Properties`` reads it, with the line of every entry."""

from __future__ import annotations

from collections.abc import Iterator
import re
from typing import Final, NamedTuple

_BLANKS: Final = " \t\f"
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX: Final = re.compile(r"[0-9A-Fa-f]{4}")
_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


class PropertyEntry(NamedTuple):
    """One setting and the line (from 1) on which it begins."""

    key: str
    value: str
    line: int


class MalformedEscape(ValueError):
    r"""``\u`` without four hexadecimal digits.

    :param line: where the entry begins, from 1
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}: \\u needs four hexadecimal digits")
        self.line = line


def parse(text: str) -> list[PropertyEntry]:
    """All entries in their order, repeated keys included (the last one counts).

    :raises MalformedEscape: an escape that Java also refuses
    """
    found = []
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        end = key.end() if key else 0
        separator = _SEPARATOR.match(line, end)
        value = line[separator.end() if separator else end :]
        # Java keeps trailing blanks; Kafka trims them from every value.
        found.append(
            PropertyEntry(_unescaped(line[:end], number), _unescaped(value, number).rstrip(), number)
        )
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined where the last one ends in an odd number of backslashes; comments and blanks left out."""
    begun, start = "", 0
    for number, physical in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = physical.lstrip(_BLANKS)
        if not start and (not line or line[0] in "#!"):
            continue
        start = start or number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            begun += line[:-1]
            continue
        yield start, begun + line
        begun, start = "", 0
    if start:
        yield start, begun


def _unescaped(text: str, line: int) -> str:
    parts, at = [], 0
    while (slash := text.find("\\", at)) >= 0:
        parts.append(text[at:slash])
        letter = text[slash + 1 : slash + 2]
        at = slash + 2
        if letter == "u":
            if not (digits := _HEX.match(text, at)):
                raise MalformedEscape(line)
            parts.append(chr(int(digits[0], 16)))
            at += 4
        else:
            # A backslash before any other letter is dropped, as in Java.
            parts.append(_LETTERS.get(letter, letter))
    return "".join([*parts, text[at:]])
