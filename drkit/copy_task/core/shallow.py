"""Dataclasses as dictionaries, without the copies that `dataclasses.asdict` makes of every value.

Between two epochs nothing is copied, and with thousands of partitions those copies take long.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any


def shallow_dict(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name; the values are the record's own."""
    return {name: getattr(record, name) for name in _names(record.__class__)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))
