"""JSON objects declared by their fields: one line says how a field is read and written. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, TypeVar, dataclass_transform, overload
from uuid import UUID

from drkit.flow_state.codec.fields import Fields, Kind

T = TypeVar("T")
D = TypeVar("D")
_NONE: Final[Any] = object()
_STORED: Final = "stored"


class _Stored(NamedTuple):
    kind: Kind[Any]
    key: str
    missing: Any
    omit_none: bool


@overload
def stored(kind: Kind[T], *, key: str = "") -> T: ...


@overload
def stored(kind: Kind[T], *, key: str = "", missing: D) -> T | D: ...


@overload
def stored(kind: Kind[T], *, key: str = "", default: D, omit_none: bool = False) -> T | D: ...


@overload
def stored(kind: Kind[T], *, key: str = "", default_factory: Callable[[], D]) -> T | D: ...


def stored(
    kind: Kind[Any],
    *,
    key: str = "",
    missing: Any = _NONE,
    default: Any = _NONE,
    default_factory: Callable[[], Any] | None = None,
    omit_none: bool = False,
) -> Any:
    """A field of a class under :func:`record`.

    :param kind: what its JSON value must be
    :param key: its name in the JSON object, when it is not that of the field
    :param missing: its value where the JSON object has none; without it that is malformed
    :param default: the same, and the default of the class
    :param default_factory: the same for a value that must not be shared
    :param omit_none: None is left out of the JSON object
    """
    if default_factory is not None:
        metadata = {_STORED: _Stored(kind, key, default_factory(), omit_none)}
        return field(default_factory=default_factory, metadata=metadata)
    metadata = {_STORED: _Stored(kind, key, missing if default is _NONE else default, omit_none)}
    return field(metadata=metadata) if default is _NONE else field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, field_specifiers=(stored,))
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass whose fields are declared by :func:`stored`."""
    return dataclass(frozen=True, slots=True)(cls)


class Body:
    """An object of JSON; what its fields do not say, a class says in methods of its own."""

    __slots__ = ()

    @classmethod
    def of(cls, raw: Any) -> Self:
        """The object in JSON data. Raises Malformed."""
        return cls.read(Fields(raw))

    @classmethod
    def read(cls, found: Fields) -> Self:
        """The object with these fields. Raises Malformed."""
        return cls(**{name: _read(found, name, how) for name, how in _declared(cls)})

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON data, in the order in which they are written."""
        values = ((how, how.key or name, getattr(self, name)) for name, how in _declared(type(self)))
        return {key: _plain(value) for how, key, value in values if not (how.omit_none and value is None)}


def _declared(cls: Any) -> list[tuple[str, _Stored]]:
    return [(each.name, each.metadata[_STORED]) for each in fields(cls)]


def _read(found: Fields, name: str, how: _Stored) -> Any:
    key = how.key or name
    return found.get(key, how.kind) if how.missing is _NONE else found.get(key, how.kind, how.missing)


def _plain(value: Any) -> Any:
    """A value as JSON data."""
    match value:
        case Body():
            return value.to_json()
        case UUID() | StrEnum():
            return str(value)
        case tuple():
            return [_plain(each) for each in value]
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
    return value
