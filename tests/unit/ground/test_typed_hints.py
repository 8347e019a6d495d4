"""The commands in hints of the catalogue are data: each exists, with its options. No broker."""

from __future__ import annotations

from collections.abc import Iterator
import shlex
from string import Formatter
from typing import Final

import click
import pytest

from drkit.catalogue import ERRORS
from drkit.catalogue.entry import with_dots
from drkit.cli.page_index import look_up
from drkit.next_command import _COMMANDS, Given, with_given_options
from tests.commands import commands

TREE: Final = dict(commands())
HINTS: Final = {code: entry.hint for code, entry in ERRORS.items() if entry.hint}
COMMON: Final = {word for option in TREE["drkit"].params for word in option.opts} | {"--help"}
OF_OTHER_TOOLS: Final = {"--signal=KILL", "--deep-iteration", "--delete-offsets"}
GIVEN: Final = Given(("failover", "--all"), "night.toml", ("a.b=4",), "a->b")


def typed(template: str) -> Iterator[list[str]]:
    """Yield the words of each command of a hint; of options to add, these alone."""
    for _, name, words, _ in Formatter().parse(template):
        if name == "drkit":
            yield shlex.split(with_dots(words or ""))


def split(words: list[str]) -> tuple[str, list[str]]:
    """Return the longest path of a command that words begin with, and the other words."""
    ends = (n for n in range(len(words), -1, -1) if " ".join(["drkit", *words[:n]]) in TREE)
    end = next(ends)
    return " ".join(["drkit", *words[:end]]), words[end:]


def options_of(path: str) -> set[str]:
    return COMMON | {word for p in TREE[path].params if isinstance(p, click.Option) for word in p.opts}


ALL_OPTIONS: Final = set[str]().union(*map(options_of, TREE))


@pytest.mark.parametrize("code", [code for code, hint in HINTS.items() if "{drkit:" in hint])
def test_each_command_of_a_hint_exists_with_its_options(code: str):
    for words in typed(HINTS[code]):
        if words[0].startswith("--"):
            assert words[0] in ALL_OPTIONS
            continue
        path, rest = split(words)
        assert path != "drkit"
        assert {word for word in rest if word.startswith("-")} <= options_of(path)
        arguments = [p for p in TREE[path].params if isinstance(p, click.Argument)]
        if not arguments:
            assert not rest or rest[0].startswith("-"), f"{path} takes no {rest[0]}"
        if path == "drkit explain" and not rest[0].startswith("-"):
            assert look_up(rest[0])


@pytest.mark.parametrize("code", HINTS)
def test_what_is_no_command_in_a_hint_is_words_only(code: str):
    words = "".join(text + "…" for text, *_ in Formatter().parse(HINTS[code]))
    assert with_given_options(words, GIVEN) == words
    options = {word.strip("(),;:.…`'\"]") for word in words.split() if word.startswith("--")}
    assert options <= ALL_OPTIONS | OF_OTHER_TOOLS


@pytest.mark.parametrize("start", _COMMANDS)
def test_a_printed_command_gets_the_flow_if_it_takes_one(start: str):
    path = f"drkit {start.removesuffix(' --')}"
    assert _COMMANDS[start] == ("--flow" in options_of(path))


def test_a_command_that_takes_a_flow_gets_it_where_it_is_printed():
    known = {f"drkit {start.removesuffix(' --')}" for start in _COMMANDS}
    others = {path for path in TREE if "--flow" in options_of(path)} - known
    assert others == {"drkit fence-agent", "drkit translate spark-checkpoint"}, "no text suggests these"
