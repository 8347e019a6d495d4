"""The question before a change: without a yes nothing is changed, and the reason is shown."""

from __future__ import annotations

import sys

import click

from drkit.cli.talk import agrees, say
from drkit.errors import Usage


def ask(question: str, *, command: str) -> None:
    """Return when the answer is yes.

    :raises Usage: the answer is no, or there is no terminal on which to answer
    :raises click.Abort: interrupted at the question, after a line that says that nothing was changed
    """
    if sys.stdin is None or sys.stdin.closed:
        raise _unanswered(command)
    try:
        agreed = agrees(question)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError) and not sys.stdin.isatty():
            say()
            raise _unanswered(command) from None
        say("\nnothing was changed")
        raise
    if not agreed:
        raise Usage(
            "the answer was not yes: nothing was changed", where=command, hint="answer y, or add --yes"
        )


def _unanswered(command: str) -> Usage:
    return Usage(
        "no terminal to ask on: nothing was changed",
        where=command,
        evidence="the question needs an answer, and standard input has none",
        hint="add --yes",
    )
