"""Read ``sasl.jaas.config``: a login module and its options, as Java's clients write them (KIP-85)."""

from __future__ import annotations

from dataclasses import dataclass
import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<double>"(?:[^"\\]|\\.)*")
      | (?P<single>'(?:[^'\\]|\\.)*')
      | (?P<word>[^\s=;"']+)
      | (?P<mark>[=;])
    )""",
    re.VERBOSE,
)

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A class name such as ``…PlainLoginModule`` and its options."""

    name: str
    options: dict[str, str]


def parse_jaas(text: str) -> LoginModule:
    """The login module of a ``sasl.jaas.config``.

    :raises ValueError: it has another form; the message holds no part of the text, which may be a password
    """
    tokens = _tokens(text)
    if not tokens or tokens[-1] != ("mark", ";"):
        raise ValueError("it does not end with a semicolon")
    words, options = tokens[:2], tokens[2:-1]
    if [kind for kind, _ in words] != ["word", "word"] or words[1][1].lower() not in _FLAGS:
        raise ValueError("it does not begin with a class name and 'required'")
    if len(options) % 3 or any(mark != ("mark", "=") for mark in options[1::3]):
        raise ValueError("after 'required' it needs options of the form name=\"value\"")
    pairs = zip(options[::3], options[2::3], strict=True)
    return LoginModule(words[0][1], {name: value for (_, name), (_, value) in pairs})


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("it has an unclosed quotation mark")
        kind = match.lastgroup or ""
        value = match[kind]
        if kind in {"double", "single"}:
            kind, value = "value", re.sub(r"\\(.)", r"\1", value[1:-1])
        found.append((kind, value))
        position = match.end()
    return found
