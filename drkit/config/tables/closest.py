"""The known word nearest to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_MANY: Final = 12
"""Maximum number of names in a message."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None if nothing is near.

    Kafka writes ``topics.exclude``, TOML keys here ``topics_exclude``: that difference does not count.
    """
    plain = {_plain(k): k for k in known}
    near = get_close_matches(_plain(word), plain, n=1)
    return plain[near[0]] if near else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint for a user who wrote ``word``."""
    names = sorted(known)
    near = closest(word, names)
    if near:
        return f"did you mean '{near}'?"
    if len(names) > _MANY:
        return "all settings: drkit explain configuration"
    return f"known: {', '.join(names)}" if names else "none is configured"


def _plain(word: str) -> str:
    return word.lower().replace(".", "_").replace("-", "_")
