"""Pydantic's errors about a file, in the words of the file. Pure."""

from __future__ import annotations

from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from drkit.config.files.interpolate import Problem, place
from drkit.config.tables.closest import suggestion
from drkit.config.tables.fields import TO_DO
from drkit.config.tables.settings import Settings

_TYPES: Final = "type, unit and default of every setting: drkit explain configuration"
_MUST_BE: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "string_type": "text",
    "tuple_type": "an array",
}
"""Pydantic's kinds of errors → the expected value, in plain words."""
_SHAPES: Final = {
    "^[A-Za-z0-9_-]+$": "must consist of letters, digits, '-' and '_'",
    "^[._-]$": "must be '.', '-' or '_'",
    "^[^:*]+:[^*]+$": "must be a type and a name, as in User:drkit",
    "[a-z0-9-]{0,38}": "must be at most 40 small letters, digits and '-', with no '-' at its ends",
}
"""Expressions of the model → the expected value, in plain words."""


def translated(error: ValidationError) -> list[Problem]:
    """Pydantic's errors, each with its path and what to do."""
    return [
        _problem(e["loc"], e["type"], e["msg"], e.get("ctx", {}).get(TO_DO, ""))
        for e in error.errors(include_url=False, include_input=False)
    ]


def _problem(location: tuple[str | int, ...], kind: str, message: str, hint: str) -> Problem:
    at = ""
    # An alias is not a setting but the name of a table.
    for step in location[:-1] if location[0] == "clusters" and location[-1] == "alias" else location:
        at = place(at, step)
    if kind == "extra_forbidden":
        return Problem(at, "unknown setting", suggestion(str(location[-1]), _known(location[:-1])))
    if kind == "missing":
        return Problem(at, "this setting is needed", _TYPES)
    if kind in _MUST_BE:
        return Problem(at, f"must be {_MUST_BE[kind]}", _TYPES)
    if shape := next((plain for expression, plain in _SHAPES.items() if expression in message), None):
        return Problem(at, shape, _TYPES)
    return Problem(at, message[:1].lower() + message[1:], hint)


def _known(location: tuple[str | int, ...]) -> list[str]:
    """Names of the settings of the table at this path."""
    model: Any = Settings
    for step in location:
        fields = model.model_fields if _is_model(model) else {}
        # A name leads to its type; an index or a table's key leads to the element's type.
        model = fields[step].annotation if step in fields else _element(model)
    return [f for f in model.model_fields if f != "alias"] if _is_model(model) else []


def _element(annotation: Any) -> Any:
    return next((a for a in get_args(annotation) if _is_model(a)), None)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
