"""Lines on stderr, and the one place that writes them: what a cluster chose reaches no terminal unescaped."""

from __future__ import annotations

import click

from drkit.visible import visible, visible_lines

_CLEAR = "\x1b[H\x1b[2J"
_OVER = "\r\x1b[2K"


def say(text: str = "") -> None:
    """One line or several on stderr."""
    click.echo(visible_lines(text), err=True)


def show(text: str) -> None:
    """A text of several lines on stdout, such as a help."""
    click.echo(visible_lines(text))


def say_over(line: str) -> None:
    """A line on a terminal's stderr in place of the last one."""
    click.echo(f"{_OVER}{visible(line)}", nl=False, err=True)


def agrees(question: str) -> bool:
    """Ask on the terminal; without an answer it is no."""
    return click.confirm(visible(question), default=False, err=True)


def clear_screen() -> None:
    """Empty the terminal that stdout is."""
    click.echo(_CLEAR, nl=False)
