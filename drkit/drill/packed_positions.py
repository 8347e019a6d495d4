"""Pack the evidence of positions for JSON: a window that several positions share is written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetPydanticSchema, PlainSerializer
from pydantic_core import CoreSchema
from pydantic_core.core_schema import json_or_python_schema, no_info_after_validator_function

from drkit.drill.position_rows import PositionEvidence, RecordWindow

PackedRow = tuple[PositionEvidence, int | None, int | None]
"""A position without its windows, and the places of those of the source and of the target."""


@dataclass(frozen=True, slots=True)
class PackedPositions:
    """Positions and their windows, each window once."""

    windows: tuple[RecordWindow, ...]
    rows: tuple[PackedRow, ...]


def pack(positions: Sequence[PositionEvidence]) -> PackedPositions:
    """Return the positions with places instead of windows."""
    places: dict[RecordWindow, int] = {}

    def place_of(window: RecordWindow | None) -> int | None:
        return None if window is None else places.setdefault(window, len(places))

    rows = tuple(
        (PositionEvidence(*row[:-2]), place_of(row.source), place_of(row.target)) for row in positions
    )
    return PackedPositions(tuple(places), rows)


def unpack(packed: PackedPositions) -> tuple[PositionEvidence, ...]:
    """Return the positions with their windows.

    :raises ValueError: a window is missing
    """
    windows: dict[int | None, RecordWindow | None] = {None: None, **dict(enumerate(packed.windows))}
    try:
        return tuple(PositionEvidence(*row[:-2], windows[s], windows[t]) for row, s, t in packed.rows)
    except KeyError as error:
        raise ValueError(f"window {error} is missing") from error


def _schema(positions: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    packed = no_info_after_validator_function(unpack, handler(PackedPositions))
    return json_or_python_schema(packed, handler(positions))


Positions = Annotated[
    tuple[PositionEvidence, ...],
    GetPydanticSchema(_schema),
    PlainSerializer(pack, return_type=PackedPositions, when_used="json"),
]
"""Positions that are packed in JSON."""
