"""The next commands that drkit prints: quoted for a shell, with the options they need. Pure."""

from __future__ import annotations

import shlex
from typing import Final, NamedTuple

from drkit.visible import visible

_COMMANDS: Final = {
    **dict.fromkeys((
        "config check", "config show", "divergence verify", "drill history", "drill report", "drill schedule",
        "repoint apply", "repoint show",
    ), False),
    **dict.fromkeys((
        "control adopt", "control check", "divergence export", "divergence", "drill cleanup", "drill run --",
        "failback --", "failover --", "fence lift", "fence pay", "fence show", "replay --", "replicate --",
        "reprotect --", "status", "translate --", "verify", "watch acknowledge", "watch pause",
        "watch resume", "watch --",
    ), True),
}  # fmt: skip
"""How a command begins in a sentence, and whether it takes ``--flow``. ``--``: without an option these words
name the program."""
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "'": "\\'", "\\": "\\\\"}


class Given(NamedTuple):
    """Options with which a command uses the same clusters and flow as the one that prints it."""

    typed: tuple[str, ...] = ()
    """The words of the running command, without ``drkit``; empty: nothing is added to them."""
    config: str = ""
    """The configuration file, if an option names it."""
    overrides: tuple[str, ...] = ()
    """Each ``KEY=VALUE`` of ``--set``."""
    flow: str = ""
    """The flow's name, if the configuration may have several."""

    def options(self, *, flow: bool) -> list[str]:
        """Words to add after a command's name."""
        words = ["--config", self.config] if self.config else []
        words += [word for pair in self.overrides for word in ("--set", pair)]
        return words + (["--flow", self.flow] if flow and self.flow else [])


def with_given_options(text: str, given: Given) -> str:
    """Return a text whose commands use the configuration and the flow of the running command.

    ``--config``, ``--set`` and ``--flow`` are added right behind a command's name, each only if it is
    missing. After a colon, options without a command get the whole command that was typed. All other words
    stay. A text may come from the journal, so commands are found by how they begin.
    """
    words, *rest = text.split("drkit ")
    text = "drkit ".join([words, *(_with_options(command, given) for command in rest)])
    return text.replace(": --", f": {typed('drkit', *given.typed)} --") if given.typed else text


def _with_options(text: str, given: Given) -> str:
    for start, of_a_flow in _COMMANDS.items():
        path = start.removesuffix(" --")
        if text.startswith(start) and not text[len(path) :][:1].isalnum():
            own = given._replace(
                config="" if " --config " in text else given.config,
                overrides=() if " --set " in text else given.overrides,
            )
            words = (path, *map(quoted, own.options(flow=of_a_flow and " --flow " not in text)))
            return " ".join(words) + text.removeprefix(path)
    return text


class Placeholder(str):
    """A word that the reader replaces, such as ``PLACE``; it is printed as it is."""

    __slots__ = ()


HOW: Final = Placeholder('"HOW"')
PLACE: Final = Placeholder("PLACE")
REASON: Final = Placeholder('"REASON"')
WHY: Final = Placeholder('"WHY"')


class NextCommand(NamedTuple):
    """A command to suggest. Its words are values; they are quoted only where it is printed."""

    argv: tuple[str, ...]

    def plus(self, *words: str) -> NextCommand:
        """Return the command with more words at its end."""
        return NextCommand((*self.argv, *words))

    def __str__(self) -> str:
        """Return the command as a person types it."""
        return typed(*self.argv)


def typed(*words: str) -> str:
    """Return words as a person types them."""
    return " ".join(quoted(word) for word in words)


def quoted(word: str) -> str:
    """Return one word of a shell, on one line whatever is in it."""
    if isinstance(word, Placeholder):
        return word
    if visible(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(_escaped(letter) for letter in word) + "'"  # of bash, zsh and POSIX 2024


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    plain = letter.isascii() and letter.isprintable()
    return letter if plain else "".join(f"\\x{byte:02x}" for byte in letter.encode())


def translate_group(group: str) -> str:
    """Return the command that shows where a group continues."""
    return typed("drkit", "translate", "--group", group)
