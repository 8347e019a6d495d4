"""Display of the settings: each with its value and origin, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
import re
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from drkit.config import Loaded
from drkit.config.files.interpolate import place
from drkit.config.tables.client_properties import masked
from drkit.config.tables.cluster import CLIENT_TABLES
from drkit.counted import counted
from drkit.masking import shown
from drkit.visible import visible

_DEFAULT: Final = "default"
_EMPTY: Final = "–"
_WIDTH: Final = 80
"""Without a terminal."""
_ORIGIN_WIDTH: Final = 24
_LEAST_VALUE: Final = 20
_GAP: Final = "  "
_INDENT: Final = "  "
_FLOW: Final = re.compile(r"flows\[(\d+)\]")


class SettingRow(NamedTuple):
    """One setting of the configuration."""

    path: str
    """As in messages: ``flows[0].tasks``."""
    name: str
    """As in ``--set``: ``flows.primary->standby.tasks``."""
    value: str
    """As in the file; secrets are hidden, and a setting without a value is empty."""
    origin: str
    is_default: bool

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return {
            "setting": self.path,
            "value": self.value,
            "from": self.origin,
            "name": self.name,
            "is_default": self.is_default,
        }


def grouped_writers(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return one row for all topics of a cluster that the same principals may write to.

    :param rows: one for each topic, with ``cluster``, ``topic`` and ``writers``
    """
    topics: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        writers = "; ".join(row["writers"]) or "only drkit"
        topics.setdefault((row["cluster"], writers), []).append(row["topic"])
    return [
        {"cluster": cluster, "writers": writers, "topics": ", ".join(names)}
        for (cluster, writers), names in topics.items()
    ]


def settings_rows(loaded: Loaded) -> list[SettingRow]:
    """Return every setting in the order of the model."""
    rows = []
    for path, value, is_default in _leaves(loaded.settings, ""):
        origin = loaded.origins.get(path, _DEFAULT)
        rows.append(
            SettingRow(
                path,
                _FLOW.sub(lambda found: f"flows.{loaded.settings.flows[int(found[1])].name}", path),
                _written(shown(path, value)),
                origin,
                is_default or origin == _DEFAULT,
            )
        )
    return rows


def settings_text(rows: Sequence[SettingRow], *, everything: bool) -> str:
    """Return the settings as columns that wrap; a long name has a line of its own.

    :param everything: also settings with their defaults
    """
    chosen = [row for row in rows if everything or not row.is_default]
    table = [("setting", "value", "from")]
    table += [(visible(row.name), visible(row.value) or _EMPTY, visible(row.origin)) for row in chosen]
    total = get_terminal_size((_WIDTH, 0)).columns
    origin = min(max(len(row[2]) for row in table), _ORIGIN_WIDTH)
    most = total - origin - _LEAST_VALUE - 2 * len(_GAP)
    name = max(len(row[0]) for row in table if len(row[0]) <= most)
    widths = (name, total - name - origin - 2 * len(_GAP), origin)
    lines = [line for row in table for line in _lines(row, widths)]
    if hidden := len(rows) - len(chosen):
        lines += ["", f"{counted(hidden, 'setting')} with defaults: drkit config show --all"]
    return "\n".join(lines)


def _lines(row: tuple[str, str, str], widths: tuple[int, int, int]) -> Iterator[str]:
    """Return the lines of a setting; what is too long for its column stands below the name."""
    name, value, origin = row
    first, second, third = widths
    if len(name) > first or len(value) > second:
        yield name
        name, first, second = "", len(_INDENT), first + second - len(_INDENT)
    cells = ([name], _wrapped(value, second), _wrapped(origin, third))
    for parts in zip_longest(*cells, fillvalue=""):
        padded = (f"{part:<{width}}" for part, width in zip(parts, (first, second, third), strict=True))
        yield _GAP.join(padded).rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False) or [""]


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Any, bool]]:
    """Return path, value, and whether it is the default, for each single setting of a table."""
    if isinstance(value, BaseModel):
        for key, field in type(value).model_fields.items():
            child = getattr(value, key)
            if key in CLIENT_TABLES and isinstance(child, dict):
                child = masked(child)
            if at.startswith("clusters.") and key == "alias":
                continue  # the name of its table
            for path, leaf, is_default in _leaves(child, place(at, key)):
                untouched = not field.is_required() and child == field.get_default(call_default_factory=True)
                yield path, leaf, is_default or untouched
    elif isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, place(at, key))
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for number, child in enumerate(value):
            yield from _leaves(child, place(at, number))
    else:
        yield at, value, False


def _written(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
