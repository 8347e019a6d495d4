"""Layout of data for people: side by side where that fits, else one below the other.

Nothing is cut, and no word is broken that fits a line: a table whose columns would break one is printed row
by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drkit.visible import visible

_INDENT: Final = 2
_GAP: Final = 2
"""Between two columns."""
UNBOUNDED: Final = 10_000
"""Width of the output without a terminal: a pipe must see whole lines."""
INDENTED: Final = 13
"""Column of the texts behind labels that are indented."""
_WHOLE: Final[Any] = {"break_long_words": False, "break_on_hyphens": False}


def table(rows: Sequence[Mapping[str, Any]], width: int = UNBOUNDED) -> RenderableType:
    """Return rows with a column for each key; one below the other where a column would break a word."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = {column: [cell(row.get(column)) for row in rows] for column in columns}
    words = [_longest_word(_name(column), *cells[column]) for column in columns]
    room = width - _GAP * (len(columns) - 1)
    if len(columns) > 1 and sum(words) > room:
        return Group(*(_stacked(row) for row in rows))
    lines = [max(t.cell_len for t in (_name(column), *cells[column])) for column in columns]
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column, wide in zip(columns, _widths(words, lines, room), strict=True):
        numbers = all(type(row.get(column)) in {int, float, type(None)} for row in rows)
        justify: JustifyMethod = "right" if numbers else "left"
        made.add_column(_name(column), justify=justify, overflow="fold", width=wide)
    for row in zip(*cells.values(), strict=True):
        made.add_row(*row)
    return made


def _widths(words: Sequence[int], lines: Sequence[int], room: int) -> list[int]:
    """Return the width of each column: its longest word, and a share of the rest, up to its longest line."""
    widths, left = [*words], room - sum(words)
    by_need = sorted(range(len(words)), key=lambda n: lines[n] - words[n])
    for done, n in enumerate(by_need):
        more = max(0, min(lines[n] - words[n], left // (len(words) - done)))
        widths[n], left = widths[n] + more, left - more
    return widths


def _stacked(row: Mapping[str, Any]) -> RenderableType:
    """Return a row as its first value, and below it the others, each after its name."""
    (_, first), *rest = row.items()
    parts = [
        Text.assemble(_name(f"{key}: " if key else ""), cell(value)) for key, value in rest if value != ""
    ]
    return Group(cell(first), Padding(Text(", ").join(parts), (0, 0, 0, _INDENT)))


def _longest_word(*texts: Text) -> int:
    return max((cell_len(word) for text in texts for word in text.plain.split()), default=0)


def pairs(values: Mapping[str, Any], console: Console, width: int) -> RenderableType:
    """Names and values: tables beside their names where the width allows it, else below them."""
    side_by_side = _side_by_side(values)
    if Measurement.get(console, console.options.update(width=UNBOUNDED), side_by_side).maximum <= width:
        return side_by_side
    names = max((_name(key).cell_len for key, value in values.items() if not _has_parts(value)), default=0)
    parts: list[RenderableType] = []
    short: dict[str, Any] = {}
    for key, value in values.items():
        if not _has_parts(value) and _longest_word(cell(value)) <= width - names - _GAP:
            short[key] = value
            continue
        if short:
            parts.append(_side_by_side(short))
            short = {}
        parts += [_name(key, "bold"), Padding(_inner(value, console, width - _INDENT), (0, 0, 0, _INDENT))]
    if short:
        parts.append(_side_by_side(short))
    return Group(*parts)


def labelled(rows: Mapping[str, Iterable[str]], column: int, width: int) -> list[str]:
    """Return texts behind their labels, as lines of a width. Words, such as names of topics, stay whole."""
    return [
        f"{'' if n else label:<{column}}{line}"
        for label, texts in rows.items()
        for n, line in enumerate(x for text in texts for x in wrap(text, width - column, **_WHOLE) or [""])
    ]


def indented(rows: Mapping[str, Iterable[str]], width: int = UNBOUNDED) -> list[str]:
    """Return texts behind their labels, indented by two; see :func:`labelled`."""
    return labelled({f"  {label}": texts for label, texts in rows.items()}, INDENTED, width)


def _inner(value: Any, console: Console, width: int) -> RenderableType:
    if not _has_parts(value):
        return cell(value)
    return pairs(value, console, width) if isinstance(value, dict) else table(value, width)


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


def _nested(value: Any) -> RenderableType:
    if not _has_parts(value):
        return cell(value)
    return _side_by_side(value) if isinstance(value, dict) else table(value)


def _has_parts(value: object) -> bool:
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _name(key: str, style: str = "") -> Text:
    return Text(visible(key.replace("_", " ")), style=style)


def with_times(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with readable times instead of milliseconds."""
    times = {k: datetime.fromtimestamp(v / 1000, UTC) for k, v in row.items() if k.endswith("_ms") and v}
    return {
        k.removesuffix("_ms"): f"{times[k]:%Y-%m-%d %H:%M:%S} UTC" if k in times else v
        for k, v in row.items()
    }
