"""Layout of data for people: side by side where that fits, else one below the other.

Nothing is cut: a text that is longer than its column wraps to the next line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drkit.visible import visible

_INDENT: Final = 2
_UNBOUNDED: Final = 10_000


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows with a column for each key."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numbers = all(type(row.get(column)) in {int, float, type(None)} for row in rows)
        made.add_column(_name(column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell(row.get(column)) for column in columns))
    return made


def pairs(values: Mapping[str, Any], console: Console, width: int) -> RenderableType:
    """Names and values: tables beside their names where the width allows it, else below them."""
    side_by_side = _side_by_side(values)
    if Measurement.get(console, console.options.update(width=_UNBOUNDED), side_by_side).maximum <= width:
        return side_by_side
    parts: list[RenderableType] = []
    short: dict[str, Any] = {}
    for key, value in values.items():
        if not _has_parts(value):
            short[key] = value
            continue
        if short:
            parts.append(_side_by_side(short))
            short = {}
        inner = pairs(value, console, width - _INDENT) if isinstance(value, dict) else table(value)
        parts += [_name(key, "bold"), Padding(inner, (0, 0, 0, _INDENT))]
    if short:
        parts.append(_side_by_side(short))
    return Group(*parts)


def cell(value: object) -> Text:
    """One value as text, with names from a cluster escaped."""
    if value is None:
        return Text("–")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, list):
        return Text(", ".join(str(cell(v)) for v in value) or "–")
    if isinstance(value, dict):
        return Text(", ".join(f"{visible(str(k))}={cell(v)}" for k, v in value.items()) or "–")
    if isinstance(value, float):
        return Text(f"{value:,.3f}".rstrip("0").rstrip("."))
    return Text(visible(str(value)))


def _side_by_side(values: Mapping[str, Any]) -> Table:
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for key, value in values.items():
        made.add_row(_name(key), _nested(value))
    return made


def _nested(value: Any) -> Table | Text:
    if not _has_parts(value):
        return cell(value)
    return _side_by_side(value) if isinstance(value, dict) else table(value)


def _has_parts(value: object) -> bool:
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _name(key: str, style: str = "") -> Text:
    return Text(visible(key.replace("_", " ")), style=style)
