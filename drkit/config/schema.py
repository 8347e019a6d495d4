"""The JSON schema of drkit.toml for editors: names, types, choices, defaults and meanings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
import inspect
from typing import Any, Final

from drkit.config.tables.fields import Strict
from drkit.config.tables.settings import Settings


def described_schema() -> dict[str, Any]:
    """Return the JSON schema of the settings model, with a description for each setting."""
    schema: dict[str, Any] = Settings.model_json_schema()
    tables = schema["$defs"] | {Settings.__name__: schema}
    for model in _tables(Strict):
        for name, meaning in _meanings(model).items():
            if model.__name__ in tables:
                tables[model.__name__]["properties"][name]["description"] = meaning
    return schema


def _tables(model: type[Strict]) -> Iterator[type[Strict]]:
    for table in model.__subclasses__():
        yield table
        yield from _tables(table)


def _meanings(model: type[Strict]) -> dict[str, str]:
    """Read the attribute docstrings of a table (PEP 257), by setting; at each import it would cost 0.1 s."""
    (table,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(table, ast.ClassDef)  # noqa: S101  a class's source is one
    meanings = {}
    for line, after in zip(table.body, table.body[1:], strict=False):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                meanings[line.target.id] = inspect.cleandoc(text.value)
    return meanings


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Final = "Reference"
_OUTSIDE: Final = {
    "description": "A value from the environment or from a file.",
    "type": "string",
    "pattern": r"\$\{(env|file):[^}]*\}",
}
_ANNOTATIONS: Final = ("description", "default")
_LIMITING: Final = ("integer", "number", "boolean")


def editor_schema() -> dict[str, Any]:
    """Return the schema of the file as it is written, before references are resolved.

    Where the model allows only some texts, or a number, a reference such as ``${env:PORT}`` is allowed, too.
    """
    schema = described_schema()
    tables = [schema, *schema["$defs"].values()]
    _leave_out_alias(schema["$defs"]["ClusterSettings"])
    for table in tables:
        table["description"] = _plain(table["description"])
        table.pop("title", None)
        table["properties"] = {name: _property(found) for name, found in table["properties"].items()}
    schema["$defs"][_REFERENCE] = _OUTSIDE
    return {"$schema": DIALECT, "title": "drkit.toml"} | schema


def _leave_out_alias(cluster: dict[str, Any]) -> None:
    """The alias of a cluster is the name of its table."""
    del cluster["properties"]["alias"]
    cluster["required"].remove("alias")


def _property(found: dict[str, Any]) -> dict[str, Any]:
    about = {name: found[name] for name in _ANNOTATIONS if found.get(name) is not None}
    about["description"] = _plain(about["description"])
    if isinstance(about.get("default"), dict):
        del about["default"]  # of a table: its settings have their own
    rest = {name: value for name, value in found.items() if name not in {*_ANNOTATIONS, "title"}}
    # TOML has no null: a setting is absent instead.
    choices = [c for c in rest.pop("anyOf", [rest]) if c.get("type") != "null"]
    if any(c.get("type") in _LIMITING or c.keys() & {"enum", "pattern"} for c in choices):
        choices.append({"$ref": f"#/$defs/{_REFERENCE}"})
    return about | (choices[0] if len(choices) == 1 else {"anyOf": choices})


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
