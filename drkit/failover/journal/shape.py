"""The format of a journal's records; other records are refused before they are read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
import json
import re
from typing import Any, Final

from drkit.failover.core.machine import FAILOVER, TABLES, RunState

RUN_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""Valid run ids; drkit uses hexadecimal digits. Local files are named after them."""
_TYPES: Final = {
    "run_id": str, "number": int, "by": str, "term": int, "effect": str, "at_ms": int, "body": dict,
}  # fmt: skip
_PART: Final = {"part_of": str, "part": int, "of": int, "text": str}
_HOLDS: Final = frozenset({"run", "hold"})
_OF_STEPS: Final = frozenset({"intent", "result"})


def loaded(text: str | bytes) -> dict[str, Any]:
    """Return the object in JSON data. Raises ValueError."""
    try:
        raw = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(raw, dict):
        raise ValueError("not an object")  # noqa: TRY004  one kind of error for what is no record
    return raw


def check(raw: Mapping[str, Any]) -> None:
    """Check the fields of an entry. Raises ValueError."""
    if unknown := raw.keys() - _TYPES.keys() - {"kind", "step"}:
        raise ValueError(f"a field that this drkit does not know: {min(unknown)!r:.50}")
    _check_types(raw, _TYPES)
    _check_types(raw, {"kind": str, "step": object})
    kind, body = raw["kind"], raw["body"]
    if not RUN_ID.fullmatch(raw["run_id"]):
        raise ValueError("a run id that drkit does not give")
    if kind in _HOLDS and not isinstance(body.get("holder"), dict):
        raise ValueError("no holder of the run")
    if kind == "run" and body.get("table", FAILOVER.name) not in TABLES:
        raise ValueError("a run of another version of drkit")
    if kind in _OF_STEPS and raw["step"] is None:
        raise ValueError("no step")
    if kind == "end":
        RunState(body.get("state"))


def check_part(raw: Mapping[str, Any]) -> None:
    """Check the fields of a part of a large entry. Raises ValueError."""
    _check_types(raw, _PART)


def _check_types(raw: Mapping[str, Any], types: Mapping[str, type]) -> None:
    for name, kind in types.items():
        if name not in raw:
            raise ValueError(f"no {name}")
        if kind is not object and type(raw[name]) is not kind:
            raise ValueError(f"{name} is {raw[name]!r:.50}")
