"""Texts for terminals: foreign names cannot move the cursor, set a title or hide text.

Every character that Python does not print becomes an escape, and so does every one that a terminal draws as
nothing. Letters of two alphabets that look alike stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import re
from typing import Final
import unicodedata

_OTHER: Final = re.compile(r"[^ -~]+")
"""All but what every terminal prints."""
_DRAWN_AS_NOTHING: Final = re.compile(
    # Default_Ignorable_Code_Point of Unicode, without those that are not printable for Python anyway
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
    "\u2800]"  # the blank pattern of Braille
)
_MARKS: Final = ("Mn", "Me")
_MOST_MARKS: Final = 4
"""Combining marks on one letter; more of them cover the lines above and below."""
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BYTE: Final = 0xFF
_PLANE: Final = 0xFFFF


def visible(text: str) -> str:
    r"""Return a text as one line: invisible and control characters become escapes such as ``\x1b``."""
    return _replaced(text, "", _escape)


def visible_lines(text: str) -> str:
    """Return the same for a text of several lines; line breaks and tabs stay."""
    return _replaced(text, "\t\n", _escape)


def visible_json(text: str) -> str:
    """Return an equivalent JSON document without these characters."""
    # Between values these are white space; within strings JSON has escaped them already.
    return _replaced(text, "\t\n\r", _escape_json)


def _replaced(text: str, kept: str, escape: Callable[[str], str]) -> str:
    return _OTHER.sub(lambda match: "".join(_characters(match[0], kept, escape)), text)


def _characters(text: str, kept: str, escape: Callable[[str], str]) -> Iterator[str]:
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in _MARKS else 0
        drawn = character.isprintable() and marks <= _MOST_MARKS and not _DRAWN_AS_NOTHING.match(character)
        yield character if drawn or character in kept else escape(character)


def _escape(character: str) -> str:
    number = ord(character)
    if number > _PLANE:
        return f"\\U{number:08x}"
    return _SHORT.get(character) or (f"\\x{number:02x}" if number <= _BYTE else f"\\u{number:04x}")


def _escape_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
