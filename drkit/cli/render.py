"""The one renderer: answers on stdout, as tables for people or as JSON; errors on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import json
import sys
from typing import Any, Final, TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drkit.catalogue import ERRORS
from drkit.cli.layout import INDENTED, UNBOUNDED, cell, indented, pairs, table
from drkit.cli.session import session
from drkit.errors import DrkitError, Refused
from drkit.masking import scrubbed, without_secrets
from drkit.visible import visible, visible_json, visible_lines

_TO_READ: Final = 100
_LONG_NAME: Final = 34
"""A longer name has a line of its own on a terminal."""
_IN_PIPE: Final = 80


def emit(
    data: object,
    as_json: bool = False,  # noqa: FBT001, FBT002  a command passes its flag on
    *,
    shown: Iterable[object] | None = None,
) -> None:
    """Print the answer of a command.

    A list of mappings becomes a table, a mapping its keys and values, anything else its text.

    :param as_json: JSON; so does ``--json`` before the command's name
    :param shown: answers that people read instead; with JSON it is not iterated
    """
    if as_json or session().as_json:
        sys.stdout.write(visible_json(json.dumps(_plain(data), indent=2, ensure_ascii=False)) + "\n")
        return
    for part in (data,) if shown is None else shown:
        _show(part)


def _show(data: object) -> None:
    rows = _plain(data)
    if isinstance(rows, list) and rows and all(isinstance(r, dict) for r in rows):
        _print(table(rows, _console(sys.stdout).width))
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


def emit_page(page: RenderableType, more: Sequence[str]) -> None:
    """Print a text to read, as wide as the terminal, at most 100 columns; in a pipe 80, as man does.

    :param more: lines below the text
    """
    width = min(_console(sys.stdout).width, _TO_READ) if sys.stdout.isatty() else _IN_PIPE
    below = [Text("\n" + "\n".join(more), style="dim")] if more else []
    _print(page, *below, width=width)


def emit_list(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Print names with a sentence each, below headings; in a pipe one line for each."""
    limit = _LONG_NAME if sys.stdout.isatty() else UNBOUNDED
    for heading, sentences in sections.items():
        column = max((len(name) for name in sentences if len(name) <= limit), default=limit)
        grid = _two_columns(column)
        parts: list[RenderableType] = [Text(heading, style="bold")]
        for name, sentence in sentences.items():
            if len(name) > column:
                parts += [_indented(grid), Text(f"  {name}")]
                grid = _two_columns(column)
            grid.add_row("" if len(name) > column else name, Text(sentence))
        _print(*parts, _indented(grid), Text())


def _two_columns(first: int) -> Table:
    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(width=first)
    made.add_column()
    return made


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _print(*parts: RenderableType, width: int | None = None) -> None:
    """Print on stdout; in a pipe without the blanks that pad columns."""
    console = _console(sys.stdout)
    if width is not None:
        console.width = width
    with console.capture() as made:
        for part in parts:
            console.print(part, crop=width is None)
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
    known = ERRORS[error.code]
    if known.page or known.exit_code == Refused.exit_code:
        rows.append(("help", f"drkit explain {error.code}"))
    for name, text in rows:
        # What to do stays one line: a command in it is copied whole.
        width = UNBOUNDED if name == "what to do" else console.width
        texts = visible_lines(scrubbed(text)).split("\n") if text else []
        for line in indented({name: texts}, width):
            console.print(Text.assemble((line[:INDENTED], "dim"), line[INDENTED:]), soft_wrap=True)


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, width=None if stream.isatty() else UNBOUNDED)


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
