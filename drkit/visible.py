"""Texts for terminals: foreign names cannot move the cursor, set a title or hide text."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, of one byte and of two
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # no width, or another direction
    r"\ud800-\udfff"  # what no encoding can write
)
_IN_LINES: Final = re.compile(f"[{_UNSEEN}]")
_IN_ONE: Final = re.compile(rf"[{_UNSEEN}\t\n]")
_IN_JSON: Final = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""A text as one line: invisible and control characters become escapes such as ``\x1b``."""
    return _IN_ONE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines; line breaks stay."""
    return _IN_LINES.sub(_escape, text)


def visible_json(text: str) -> str:
    """An equivalent JSON document without these characters."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}")  # noqa: PLR2004  one byte
