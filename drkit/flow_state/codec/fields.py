"""Types of JSON values: each accepts what drkit writes, and refuses the rest as :class:`Malformed`. Pure.

Any client with write access to a drkit topic can send any bytes. A value of another type is therefore a named
error, never a default and never a later crash. pydantic reads the structure; single values are checked
here, because its own types convert: they take `"5"` and `true` for integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
import math
import re
from typing import Annotated, Any, Final, TypeVar, cast
from uuid import UUID

from pydantic import (
    BeforeValidator,
    Field,
    GetPydanticSchema,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    WrapSerializer,
    WrapValidator,
)
from pydantic_core.core_schema import no_info_plain_validator_function

from drkit.model import TopicPartition

T = TypeVar("T")
K = TypeVar("K")

LONG: Final = 2**63 - 1
EXACT: Final = 2**53 - 1
"""The largest integer that every reader of JSON has exactly."""
SHORT: Final = 2**15 - 1
MOST_BYTES: Final = 16 << 20
"""A longer value is not parsed: the largest record of drkit has less than one MiB."""
_NAME_LENGTH: Final = 1024
_CHUNK: Final = 100
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")


class Malformed(ValueError):
    """The value was not written by this drkit; the text names the field and what is wrong."""


def checked(check: Callable[[Any], Any]) -> GetPydanticSchema:
    """Read a value by one function alone; pydantic's PlainValidator would write it by its type, too."""
    return GetPydanticSchema(lambda _kind, _handler: no_info_plain_validator_function(check))


def whole(least: int = 0, most: int = LONG) -> GetPydanticSchema:
    """An integer in this range; neither a truth value nor a fraction."""

    def check(value: Any) -> int:
        if type(value) is not int:
            raise wrong("an integer", value)
        if not least <= value <= most:
            raise Malformed(f"an integer from {least} to {most} was expected")
        return int(value)

    return checked(check)


def text(most: int = MOST_BYTES, *, least: int = 0) -> Callable[[Any], str]:
    """Return the check of a text of `least` to `most` characters."""

    def check(value: Any) -> str:
        if type(value) is not str:
            raise wrong("a text", value)
        if not least <= len(value) <= most:
            raise Malformed(f"a text of {least} to {most} characters was expected, it has {len(value)}")
        return str(value)

    return check


def _seconds(value: Any) -> float:
    if type(value) not in {int, float}:
        raise wrong("a number", value)
    # The comparison comes first: an integer of many digits is too large to be made a fraction.
    if not (0 <= value <= LONG and math.isfinite(value)):
        raise Malformed("a finite number from 0 on was expected")
    return cast("float", value)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise wrong("true or false", value)
    return bool(value)


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise wrong("an object", value)
    return value


def topic_name(value: Any) -> str:
    """A topic's name, as Kafka allows them."""
    found = text(249)(value)
    if not _TOPIC.fullmatch(found):
        raise Malformed("the name of a topic was expected")
    return found


def _uuid(value: Any) -> UUID:
    found = text(36)(value)
    try:
        parsed = UUID(found)
    except ValueError:
        raise Malformed("a topic id was expected") from None
    if str(parsed) != found:
        raise Malformed("a topic id in lower case with dashes was expected")
    return parsed


def digits(value: Any) -> int:
    """A number as the key of an object: digits without a sign or leading zeros."""
    found = text(19)(value)
    if not _NUMBER.fullmatch(found) or int(found) > LONG:
        raise Malformed("a number was expected")
    return int(found)


def partition_of(value: str) -> TopicPartition:
    """``topic/partition``, the second part of a key."""
    topic, _, number = value.rpartition("/")
    return TopicPartition(topic_name(topic), digits(number))


def listed(least: int, most: int | None = None) -> BeforeValidator:
    """A list of this length, before its values are looked at: a NamedTuple alone would accept an object."""
    expected = f"{least}" if most is None else f"{least} to {most}"

    def check(value: Any) -> Any:
        if type(value) is not list:
            raise wrong("a list", value)
        if not least <= len(value) <= (most or least):
            raise Malformed(f"a list of {expected} was expected, it has {len(value)}")
        return value

    return BeforeValidator(check)


def row(kind: Any, make: Callable[..., Any]) -> GetPydanticSchema:
    """A list that is written for a NamedTuple of another room.

    :param kind: its type, as a tuple of types of this module
    """
    adapter = TypeAdapter[tuple[Any, ...]](kind)
    return checked(lambda value: make(*adapter.validate_python(value)))


def _in_chunks(value: Any, read: Callable[[Any], dict[Any, Any]]) -> dict[Any, Any]:
    """Read an object of wrong values only up to the first ones: pydantic keeps an error for each."""
    if type(value) is not dict or len(value) <= _CHUNK:
        return read(value)
    mapping, entries = dict[Any, Any](), iter(value.items())
    while chunk := dict(islice(entries, _CHUNK)):
        mapping |= read(chunk)
    return mapping


def _write_mapping(value: Any, write: SerializerFunctionWrapHandler) -> Any:
    return write(dict(value))


def _not_null(value: Any) -> Any:
    if value is None:
        raise wrong("an object", value)
    return value


def _from_pairs(value: Any) -> Any:
    return {TopicPartition(*tp): each for tp, each in value} if isinstance(value, list) else value


Integer = Annotated[int, whole(-LONG - 1)]
Count = Annotated[int, whole()]
Short = Annotated[int, whole(0, SHORT)]
Int32 = Annotated[int, whole(0, 2**31 - 1)]
Timestamp = Integer
"""A producer may set any, and -1 is a batch without timestamps."""
Seconds = Annotated[float, checked(_seconds)]
"""A finite number of seconds, 0 or more."""
Flag = Annotated[bool, checked(_flag)]
Name = Annotated[str, checked(text(_NAME_LENGTH, least=1))]
"""An id, a host, an alias: short, and not empty."""
ShortText = Annotated[str, checked(text(_NAME_LENGTH))]
Prose = Annotated[str, checked(text())]
"""A sentence for a person; may be empty."""
TopicName = Annotated[str, checked(topic_name)]
TopicId = Annotated[UUID, checked(_uuid)]
"""In its canonical form."""
Object = Annotated[dict[str, Any], checked(_object)]
"""Any JSON object, as it is."""
Digits = Annotated[int, checked(digits)]
Many = Annotated[tuple[T, ...], GetPydanticSchema(lambda kind, read: {**read(kind), "fail_fast": True})]
Map = Annotated[Mapping[K, T], WrapValidator(_in_chunks), WrapSerializer(_write_mapping)]
ByPartition = Annotated[Mapping[TopicPartition, T], BeforeValidator(_from_pairs)]
"""Read from pairs: the names in a JSON object are texts."""
Omitted = Annotated[T | None, Field(exclude_if=lambda value: value is None)]
"""A field that the JSON object lacks while its value is None."""
Given = Annotated[Omitted[T], BeforeValidator(_not_null)]
"""An object, or None where it is missing; null is refused."""


def wrong(expected: str, value: Any) -> Malformed:
    """Return the error about a value of another type."""
    return Malformed(f"{expected} was expected, not {_KINDS.get(type(value), 'something else')}")


_KINDS: Final[dict[type, str]] = {
    str: "a text", int: "an integer", float: "a fraction", bool: "a truth value", list: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip
