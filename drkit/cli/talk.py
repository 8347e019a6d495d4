"""The only module that writes lines on stderr: names from a cluster are escaped for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from drkit.visible import visible, visible_lines

_CLEAR = "\x1b[H\x1b[2J"
_OVER = "\r\x1b[2K"


def say(text: str = "") -> None:
    """Print one or several lines on stderr."""
    click.echo(visible_lines(text), err=True)


def show(text: str) -> None:
    """Print a text of several lines on stdout, such as a help."""
    click.echo(visible_lines(text))


def say_over(line: str) -> None:
    """Replace the last line on a terminal's stderr."""
    click.echo(f"{_OVER}{visible(line)}", nl=False, err=True)


def agrees(question: str) -> bool:
    """Ask on the terminal; returns whether the answer is yes. No answer counts as no."""
    return click.confirm(visible(question), default=False, err=True)


def answer(question: str, choices: Sequence[str]) -> str:
    """Ask on the terminal until there is an answer; no answer is no choice.

    :param choices: the allowed answers, or empty for any text
    """
    kind = click.Choice([str(c) for c in choices]) if choices else click.STRING
    return str(click.prompt(visible(question), type=kind, show_choices=True, err=True)).strip()


def clear_screen() -> None:
    """Clear the terminal of stdout."""
    click.echo(_CLEAR, nl=False)
