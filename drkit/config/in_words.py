"""Pydantic's errors about a file, in the words of the file. Pure."""

from __future__ import annotations

from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from drkit.config.files.interpolate import Problem, place
from drkit.config.tables.closest import suggestion
from drkit.config.tables.fields import TO_DO
from drkit.config.tables.settings import Settings
from drkit.masking import shown

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
_QUOTED: Final = frozenset(_MUST_BE) | {
    "finite_number",
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "literal_error",
    "string_pattern_mismatch",
}
"""Kinds of errors that do not repeat the value in their text."""
_KEY: Final = "[key]"
"""Pydantic's last step to the key of a table, where the key itself is wrong."""


def translated(error: ValidationError) -> list[Problem]:
    """Pydantic's errors, each with its path and what to do."""
    found = []
    for each in error.errors(include_url=False):
        location, kind = each["loc"], each["type"]
        is_key = location[-1:] == (_KEY,)
        hint = each.get("ctx", {}).get(TO_DO, "")
        problem = _problem(location[:-1] if is_key else location, kind, each["msg"], hint)
        if is_key:
            problem = problem._replace(is_about_name=True)
        elif kind in _QUOTED:
            problem = problem._replace(evidence=_quoted(problem.at, each["input"]))
        found.append(problem)
    return found


def _quoted(at: str, value: object) -> str:
    """Return a single value as a person wrote it; empty for tables and arrays."""
    if not isinstance(value, (str, int, float)):
        return ""
    text = shown(at, value)
    return f"'{text}'" if isinstance(text, str) else str(text).lower()


def _problem(location: tuple[str | int, ...], kind: str, message: str, hint: str) -> Problem:
    at = ""
    # An alias is not a setting but the name of a table.
    for step in location[:-1] if location[0] == "clusters" and location[-1] == "alias" else location:
        at = place(at, step)
    if kind == "extra_forbidden":
        hint = suggestion(str(location[-1]), _known(location[:-1]))
        return Problem(at, "unknown setting", hint, is_about_name=True)
    if kind == "missing":
        return Problem(at, "this setting is needed", _TYPES, is_about_name=True)
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
