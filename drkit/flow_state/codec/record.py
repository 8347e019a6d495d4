"""JSON objects as frozen dataclasses: the types of their fields decide what is accepted. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
import json
import math
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar, dataclass_transform

from pydantic import ConfigDict, TypeAdapter, ValidationError

from drkit.flow_state.codec.fields import MOST_BYTES, Malformed, partition_of, topic_name, wrong
from drkit.model import TopicPartition

T = TypeVar("T")
_EXPECTED: Final = {"tuple_type": "a list", "dict_type": "an object", "dataclass_type": "an object"}
_KEY: Final = "[key]"
_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}
"""By class; made when they are needed: one takes some milliseconds."""


class Body:
    """An object of JSON. Fields that its class does not have come from a later drkit and are ignored."""

    __slots__ = ()

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Return the object in JSON data. Raises Malformed."""
        body: Self = read_as(_adapter(cls), raw)
        return body

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Return the object in these bytes. Raises Malformed."""
        return cls.of(parsed(value))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON data, in the order in which they are written."""
        found: dict[str, Any] = _adapter(type(self)).dump_python(
            self, mode="json", by_alias=True, warnings=False
        )
        return found

    def encode(self) -> bytes:
        """Return the object as bytes."""
        return json.dumps(self.to_json()).encode()


class TaskData:
    """Data sent as JSON between the driver and Spark's tasks; fields are read by their types alone."""

    __slots__ = ()
    __pydantic_config__: ClassVar = ConfigDict(ser_json_inf_nan="constants")

    def to_json(self) -> str:
        """Return it as JSON."""
        return _adapter(type(self)).dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what :meth:`to_json` wrote."""
        data: Self = _adapter(cls).validate_json(text)
        return data


class StateRecord(Body):
    """One record. Subclasses are declared with :func:`state_record`, one for each kind of key."""

    __slots__ = ()
    KEY: ClassVar[str]
    """One that ends with a slash has one record for each name after it."""
    REQUIRED: ClassVar[bool] = True
    """Without it drkit would act wrongly: a damaged one is refused. False: it is written again and again, so
    a damaged one counts as missing until then."""

    @classmethod
    def key(cls, name: str = "") -> str:
        """The record's key in the state topic.

        :param name: empty for a kind with a single record
        """
        return f"{cls.KEY}{name}"

    @classmethod
    def check_name(cls, name: str) -> None:
        """Raise Malformed where no record of this kind has such a name in its key."""
        if name:
            raise Malformed("a single record has no name")


R = TypeVar("R", bound=StateRecord)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def state_record(key: str, *, required: bool = True) -> Callable[[type[R]], type[R]]:
    """Make a frozen dataclass of a kind of record, with its `KEY` and `REQUIRED`."""

    def make(kind: type[R]) -> type[R]:
        kind.KEY, kind.REQUIRED = key, required
        return dataclass(frozen=True, slots=True)(kind)

    return make


class TopicRecord(StateRecord):
    """A record with a source topic's name in its key."""

    __slots__ = ()

    @classmethod
    def check_name(cls, name: str) -> None:
        """Raise Malformed for what is no name of a topic."""
        topic_name(name)


class PartitionRecord(StateRecord):
    """A record with a source partition in its key."""

    __slots__ = ()

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        partition_of(name)

    @staticmethod
    def name_of(partition: TopicPartition) -> str:
        """The name in the key for a source partition."""
        return f"{partition.topic}/{partition.partition}"


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if (adapter := _ADAPTERS.get(kind)) is None:
        adapter = _ADAPTERS[kind] = TypeAdapter(kind)
    return adapter


def read_as(adapter: TypeAdapter[T], raw: Any) -> T:
    """Return JSON data as a type. Raises Malformed."""
    try:
        return adapter.validate_python(raw)
    except ValidationError as error:
        raise Malformed(_in_words(error)) from None


def parsed(value: bytes, most: int = MOST_BYTES) -> dict[str, Any]:
    """Return the JSON object in a record's value. Raises Malformed."""
    if len(value) > most:
        raise Malformed(f"{len(value)} bytes, more than any record of drkit has")
    try:
        raw = _DECODER.decode(value.decode())
    except (ValueError, RecursionError):
        raw = None
    if type(raw) is not dict:
        raise Malformed(f"{len(value)} bytes, no JSON object: {value[:8].hex()}…")
    return raw


def _in_words(error: ValidationError) -> str:
    """Return the first error, after the names of the fields that lead to it."""
    first = error.errors(include_url=False)[0]
    path, context = list(first["loc"]), first.get("ctx", {})
    match first["type"]:
        case "missing" | "missing_argument":
            reason = f"{path.pop()} is missing"
        case "unexpected_keyword_argument":
            reason = "this drkit does not know the field"
        case "value_error":
            reason = str(context["error"])
        case "enum":
            reason = f"one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')} was expected"
        case "too_long":
            reason = f"at most {context['max_length']} entries were expected, it has {len(first['input'])}"
        case kind:
            reason = str(wrong(_EXPECTED.get(kind, kind), first["input"]))
    if path[-1:] == [_KEY]:
        path[-2:] = ["a key"]
    return "".join(f"[{step}]: " if isinstance(step, int) else f"{step[:80]}: " for step in path) + reason


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    if not math.isfinite(found := float(digits)):
        raise ValueError(digits)
    return found


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
