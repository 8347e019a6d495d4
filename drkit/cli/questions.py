"""The questions before a change: without an answer nothing is changed, and the reason is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import sys
from typing import TypeVar

import click

from drkit.cli.signals import interruptible
from drkit.cli.talk import agrees, answer, say
from drkit.errors import Usage

_T = TypeVar("_T")


def ask(question: str, *, command: str) -> None:
    """Return when the answer is yes.

    :raises Usage: the answer is no, or there is no terminal on which to answer
    :raises click.Abort: interrupted at the question, after a line that says that nothing was changed
    """
    if not _put(lambda: agrees(question), command, "add --yes"):
        raise Usage("not_confirmed", where=command)


def answered(question: str, choices: Sequence[str], *, command: str) -> str:
    """Return what a person answers: one of some words, or any text where none are given. None is a default.

    :raises Usage: there is no terminal on which to answer
    :raises click.Abort: interrupted at the question, after a line that says that nothing was decided
    """
    return _put(lambda: answer(question, choices), command, "say it by options", "nothing was decided")


def can_ask() -> bool:
    """Whether a person can answer."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _put(question: Callable[[], _T], command: str, instead: str, without: str = "nothing was changed") -> _T:
    if sys.stdin is None or sys.stdin.closed:
        raise _unanswered(command, instead, without)
    try:
        with interruptible():
            return question()
    except click.Abort as error:
        if isinstance(error.__context__, EOFError) and not sys.stdin.isatty():
            say()
            raise _unanswered(command, instead, without) from None
        say(f"\n{without}")
        raise


def _unanswered(command: str, instead: str, without: str) -> Usage:
    evidence = "the question needs an answer, and standard input has none"
    return Usage("no_terminal", where=command, evidence=evidence, hint=instead, without=without)
