"""Who takes part by name: the observers and the fence agents of a configuration. Pure."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from drkit.config.tables.fields import listed

_LONGEST: Final = 256
"""Maximum length of a name in a note."""
_TWO: Final = 2
_CANNOT_DECIDE: Final = (
    "two observers cannot decide: each may be the one that is cut off; set 1, or 3 and more"
)
_WHAT: Final = 'a list of names was expected, as in ["a", "b", "c"], or a number from {least}'


def _usable(name: str) -> str:
    if not 0 < len(name) <= _LONGEST or not name.isprintable():
        what = "a name of 1 to {most} characters, none of them a control character, was expected"
        raise PydanticCustomError("name", what, {"most": _LONGEST})
    return name


def _read(value: object, least: int) -> object:
    """The value, checked as a whole: an error of a union would name each of its types.

    Environment variables and `--set` give texts: `3`, or names with commas.
    """
    if isinstance(value, str):
        value = int(value) if value.strip().isdecimal() else listed(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(n, str) for n in value):
        raise PydanticCustomError("names", _WHAT, {"least": least})
    names = [_usable(n.strip()) for n in value]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise PydanticCustomError("names", "'{name}' is named twice", {"name": twice[0]})
    return names


def _observers(value: object) -> object:
    found = _read(value, 1)
    if found == _TWO or (isinstance(found, list) and len(found) == _TWO):
        raise PydanticCustomError("observers", _CANNOT_DECIDE, {})
    return found


def _agents(value: object) -> object:
    return _read(value, 0)


Name = Annotated[str, AfterValidator(_usable)]
"""Under which an observer or a fence agent publishes its notes."""
_Number = Annotated[int, Field(gt=0)]
_NumberOrNone = Annotated[int, Field(ge=0)]
ObserverNames = Annotated[
    tuple[str, ...] | _Number,
    BeforeValidator(_observers, json_schema_input_type=tuple[str, ...] | str | _Number),
]
"""All observers by name, or their number."""
AgentNames = Annotated[
    tuple[str, ...] | _NumberOrNone,
    BeforeValidator(_agents, json_schema_input_type=tuple[str, ...] | str | _NumberOrNone),
]
"""All fence agents by name, or their number."""


def number_of(given: int | tuple[str, ...]) -> int:
    """The number of participants."""
    return given if isinstance(given, int) else len(given)


def names_of(given: int | tuple[str, ...]) -> tuple[str, ...]:
    """Their names; none where only their number is known."""
    return () if isinstance(given, int) else given
