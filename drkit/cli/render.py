"""The one renderer: answers on stdout, as tables for people or as JSON; errors on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import json
import sys
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drkit.cli.session import session
from drkit.errors import DrkitError
from drkit.masking import scrubbed
from drkit.visible import visible, visible_json, visible_lines

_UNBOUNDED: Final = 10_000
"""Columns where nobody looks at a terminal: a pipe must see whole lines."""


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
        _print(_table(rows))
    elif isinstance(rows, list):
        _print(*(Text(visible_lines(row)) if isinstance(row, str) else _cell(row) for row in rows))
    elif isinstance(rows, dict):
        _print(_pairs(rows))
    elif isinstance(rows, str):
        _print(Text(visible_lines(rows)))
    elif rows is not None:
        _print(_cell(rows))


def _print(*parts: Table | Text) -> None:
    """On stdout; in a pipe without the blanks that fill up columns."""
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
        text = json.dumps(error.as_dict(), indent=2, ensure_ascii=False)
        sys.stderr.write(visible_json(scrubbed(text)) + "\n")
        return
    console = _console(sys.stderr)
    console.print(Text.assemble((f"{_title(error)}: ", "bold red"), visible(scrubbed(error.what))))
    for name, text in (("where", error.where), ("evidence", error.evidence), ("what to do", error.hint)):
        for number, line in enumerate(visible_lines(scrubbed(text)).split("\n") if text else ()):
            console.print(
                Text.assemble((f"  {name if number == 0 else '':<11}", "dim"), line), soft_wrap=True
            )


def _title(error: DrkitError) -> str:
    return {2: "configuration", 3: "refused"}.get(error.exit_code, "failed")


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, width=None if stream.isatty() else _UNBOUNDED)


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numbers = all(type(row.get(column)) in {int, float, type(None)} for row in rows)
        table.add_column(Text(visible(column.replace("_", " "))), justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    return table


def _pairs(values: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for key, value in values.items():
        table.add_row(Text(visible(key.replace("_", " "))), _nested(value))
    return table


def _nested(value: object) -> Table | Text:
    if isinstance(value, dict) and value:
        return _pairs(value)
    if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
        return _table(value)
    return _cell(value)


def _cell(value: object) -> Text:
    if value is None:
        return Text("–")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, list):
        return Text(", ".join(str(_cell(v)) for v in value) or "–")
    if isinstance(value, dict):
        return Text(", ".join(f"{visible(str(k))}={_cell(v)}" for k, v in value.items()) or "–")
    if isinstance(value, float):
        return Text(f"{value:,.3f}".rstrip("0").rstrip("."))
    return Text(visible(str(value)))


def _plain(value: object) -> Any:
    """Data made of what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
