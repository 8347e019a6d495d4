"""The meaning of each setting: the text below its line in the source, read for reference pages and schemas.

Pydantic would read it at every import of the models, which takes a tenth of a second of every command.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
import inspect
from typing import Any

from drkit.config.tables.fields import Strict
from drkit.config.tables.settings import Settings


def described_schema() -> dict[str, Any]:
    """Return the JSON schema of the settings model, with a description for each setting."""
    schema: dict[str, Any] = Settings.model_json_schema()
    found = schema["$defs"] | {Settings.__name__: schema}
    for model in _tables(Strict):
        for name, meaning in _meanings(model).items():
            if model.__name__ in found:
                found[model.__name__]["properties"][name]["description"] = meaning
    return schema


def definitions() -> dict[str, Any]:
    """The JSON schema of each table by its class, with a description for each setting."""
    found: dict[str, Any] = described_schema()["$defs"]
    return found


def _tables(model: type[Strict]) -> Iterator[type[Strict]]:
    for table in model.__subclasses__():
        yield table
        yield from _tables(table)


def _meanings(model: type[Strict]) -> dict[str, str]:
    """Setting → the docstring that follows it (PEP 257 calls it an attribute docstring)."""
    (table,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(table, ast.ClassDef)  # noqa: S101  a class's source is one
    found = {}
    for line, after in zip(table.body, table.body[1:], strict=False):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[line.target.id] = inspect.cleandoc(text.value)
    return found
