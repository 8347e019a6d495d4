"""The next commands that drkit prints: quoted for a shell, with the options they need. Pure."""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple

from drkit.visible import visible

_OPTION: Final = r" --[a-z][a-z0-9-]*(?: (?!-)(?:\"[^\"]*\"|\$?'[^']*'|[^\s;,()\"'])+)?"
_COMMAND: Final = re.compile(
    r"\bdrkit (?P<verb>fence (?:show|pay|lift)|repoint (?:show|apply)|config (?:check|show)"
    r"|divergence(?: (?:export|verify))?|control (?:adopt|check)|status|verify"
    r"|watch (?:resume|pause|acknowledge)|drill (?:history|report|cleanup|schedule)"
    r"|(?:drill run|failover|failback|replay|reprotect|replicate|translate|watch)(?= --))(?![\w-])"
    rf"(?P<options>(?:{_OPTION})*)"
)
"""A command within a sentence, and the options right behind its name. A verb that needs an option, such as
``drkit watch`` or ``drkit failover``, is a command only with one: bare it names the program."""
_ADDITION: Final = re.compile(r"(?<=: )(?=--[a-z])")
"""An option to add to the typed command."""
_OF_A_FLOW: Final = frozenset({
    "control", "divergence", "drill cleanup", "drill run", "failback", "failover", "fence", "replay",
    "replicate", "reprotect", "status", "translate", "verify", "watch",
})  # fmt: skip
_OF_NO_FLOW: Final = "divergence verify"
"""It needs an export alone."""
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

    A hint is often a sentence with a command in it, so commands are recognised by their names (``_COMMAND``).
    ``--config``, ``--set`` and ``--flow`` are added right behind a name, each only if it is missing. After a
    colon, options without a command get the whole command that was typed. All other words stay.
    """
    text = _COMMAND.sub(lambda found: _with_options(found, given), text)
    return _ADDITION.sub(lambda _: f"{typed('drkit', *given.typed)} ", text) if given.typed else text


def _with_options(found: re.Match[str], given: Given) -> str:
    has = found["options"]
    own = given._replace(
        config="" if " --config " in has else given.config,
        overrides=() if " --set " in has else given.overrides,
    )
    verb = found["verb"]
    of_a_flow = (
        not _OF_A_FLOW.isdisjoint({verb, verb.split()[0]}) and verb != _OF_NO_FLOW and " --flow " not in has
    )
    more = "".join(f" {quoted(word)}" for word in own.options(flow=of_a_flow))
    return f"drkit {verb}{more}{has}"


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
    """The command that shows where a group continues."""
    return typed("drkit", "translate", "--group", group)
