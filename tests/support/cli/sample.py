"""One value of a type with every field filled, made from its annotations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
import dataclasses
import enum
import inspect
from pathlib import Path
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

from pydantic import BaseModel

_PLAIN: dict[Any, Any] = {
    bool: True,
    int: 1,
    float: 0.5,
    str: "x",
    bytes: b"x",
    Path: Path("x"),
    UUID: UUID(int=1),
    type(None): None,
    Any: "x",
    object: "x",
}


def sample(kind: Any, fields: Mapping[str, Any] | None = None, *, absent: bool = False) -> Any:
    """Return a value of a type; every list has one element.

    :param fields: values of some of its fields
    :param absent: use None for each optional value
    :raises TypeError: the type is not supported
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is not None:
        return _generic(origin, arguments, absent=absent)
    if is_typeddict(kind):
        return _filled(kind, list(kind.__annotations__), fields or {}, absent=absent)
    if issubclass(kind, enum.Enum):
        return next(iter(kind))
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
    elif issubclass(kind, BaseModel):
        names = list(kind.model_fields)
        return kind.model_construct(**_filled(kind, names, fields or {}, absent=absent))
    elif hasattr(kind, "_fields"):
        names = list(kind._fields)
    else:
        raise TypeError(kind)
    return kind(**_filled(kind, names, fields or {}, absent=absent))


def _filled(kind: Any, names: Collection[str], fields: Mapping[str, Any], *, absent: bool) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        known |= vars(inspect.getmodule(base))
    hints = get_type_hints(kind, known)
    return {n: fields[n] if n in fields else sample(hints[n], absent=absent) for n in names}


def _generic(origin: Any, arguments: tuple[Any, ...], *, absent: bool) -> Any:
    made = [sample(a, absent=absent) for a in arguments if a is not ... and origin is not Literal]
    if origin in {Union, types.UnionType}:
        return None if absent and None in made else next(value for value in made if value is not None)
    if origin is Literal:
        return arguments[0]
    if origin is tuple and arguments[-1] is not ...:
        return tuple(made)
    if issubclass(origin, Mapping):
        return {made[0]: made[1]}
    if issubclass(origin, Collection):
        return (tuple if inspect.isabstract(origin) else origin)(made)
    raise TypeError(origin)
