"""The one renderer: answers on stdout, as tables for people or as JSON; errors on stderr."""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import json
import sys
from typing import Any, Final, TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from drkit.catalogue import ERRORS
from drkit.cli.layout import cell, pairs, table
from drkit.cli.session import session
from drkit.errors import DrkitError
from drkit.masking import scrubbed, without_secrets
from drkit.visible import visible, visible_json, visible_lines

_UNBOUNDED: Final = 10_000
"""Width of the output without a terminal: a pipe must see whole lines."""


def emit(data: object, as_json: bool = False) -> None:  # noqa: FBT001, FBT002  a command passes its flag on
    """Print the answer of a command.

    A list of mappings becomes a table, a mapping its keys and values, anything else its text.

    :param as_json: JSON; so does ``--json`` before the command's name
    """
    if as_json or session().as_json:
        sys.stdout.write(visible_json(json.dumps(_plain(data), indent=2, ensure_ascii=False)) + "\n")
        return
    rows = _plain(data)
    if isinstance(rows, list) and rows and all(isinstance(r, dict) for r in rows):
        _print(table(rows))
    elif isinstance(rows, list):
        _print(*(Text(visible_lines(row)) if isinstance(row, str) else cell(row) for row in rows))
    elif isinstance(rows, dict):
        console = _console(sys.stdout)
        _print(pairs(rows, console, console.width))
    elif isinstance(rows, str):
        _print(Text(visible_lines(rows)))
    elif rows is not None:
        _print(cell(rows))


def emit_line(data: object) -> None:
    """Print one of many answers: JSON on one line, at once."""
    sys.stdout.write(visible_json(json.dumps(_plain(data), ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def _print(*parts: RenderableType) -> None:
    """Print on stdout; in a pipe without the blanks that pad columns."""
    console = _console(sys.stdout)
    with console.capture() as made:
        for part in parts:
            console.print(part)
    text = made.get()
    if not sys.stdout.isatty():
        text = "\n".join(line.rstrip(" ") for line in text.split("\n"))
    sys.stdout.write(text)


def emit_error(error: DrkitError, *, as_json: bool) -> None:
    """Print what failed, where, the evidence and what to do next."""
    if as_json:
        text = json.dumps(without_secrets(error.as_dict()), indent=2, ensure_ascii=False)
        sys.stderr.write(visible_json(text) + "\n")
        return
    console = _console(sys.stderr)
    console.print(Text.assemble((f"{error.heading}: ", "bold red"), visible(scrubbed(error.what))))
    rows = [("where", error.where), ("evidence", error.evidence), ("what to do", error.hint)]
    rows += [("help", f"drkit explain {error.code}")] if ERRORS[error.code].page else []
    for name, text in rows:
        for number, line in enumerate(visible_lines(scrubbed(text)).split("\n") if text else ()):
            console.print(
                Text.assemble((f"  {name if number == 0 else '':<11}", "dim"), line), soft_wrap=True
            )


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, width=None if stream.isatty() else _UNBOUNDED)


def _plain(value: object) -> Any:
    """The value, made of JSON's types only."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
