"""The only module that writes lines on stderr: names from a cluster are escaped for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from shutil import get_terminal_size
import sys

import click

from drkit.cli.layout import UNBOUNDED, labelled
from drkit.cli.session import to_type
from drkit.visible import visible, visible_lines

_CLEAR = "\x1b[H\x1b[2J"
_OVER = "\r\x1b[2K"


def say(text: str = "") -> None:
    """Print one or several lines on stderr."""
    click.echo(visible_lines(text), err=True)


def say_rows(rows: Mapping[str, Iterable[str]], column: int = 10) -> None:
    """Print texts behind their labels on stderr; a terminal breaks them between words."""
    width = get_terminal_size().columns if sys.stderr.isatty() else UNBOUNDED
    texts = {label: [to_type(visible(text)) for text in each] for label, each in rows.items()}
    say("\n".join(labelled(texts, column, width)))


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
