"""Reads JSON values strictly: of the type and in the range that drkit writes, or :class:`Malformed`. Pure.

Any client with write access to a drkit topic can send any bytes. A value of another type is therefore a named
error, never a default and never a later crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
import json
import math
import re
from typing import Any, Final, NoReturn, TypeVar, cast, overload
from uuid import UUID

from drkit.model import TopicPartition

T = TypeVar("T")
K = TypeVar("K")
D = TypeVar("D")
E = TypeVar("E", bound=StrEnum)
Kind = Callable[[Any], T]
"""Checks a JSON value and returns it as its type; raises :class:`Malformed`."""

LONG: Final = 2**63 - 1
EXACT: Final = 2**53 - 1
"""The largest integer that every reader of JSON has exactly."""
SHORT: Final = 2**15 - 1
MOST_BYTES: Final = 16 << 20
"""A longer value is not parsed: the largest record of drkit has less than one MiB."""
_NAME_LENGTH: Final = 1024
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_MISSING: Final[Any] = object()


class Malformed(ValueError):
    """The value was not written by this drkit; the text names the field and what is wrong."""


def whole(least: int = 0, most: int = LONG) -> Kind[int]:
    """An integer in this range; neither a truth value nor a fraction."""

    def check(value: Any) -> int:
        if type(value) is not int:
            _wrong("an integer", value)
        if not least <= value <= most:
            raise Malformed(f"an integer from {least} to {most} was expected")
        return int(value)

    return check


def seconds(value: Any) -> float:
    """A finite number of seconds, 0 or more."""
    if type(value) not in {int, float}:
        _wrong("a number", value)
    # The comparison comes first: an integer of many digits is too large to be made a fraction.
    if not (0 <= value <= LONG and math.isfinite(value)):
        raise Malformed("a finite number from 0 on was expected")
    return cast("float", value)


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        _wrong("true or false", value)
    return bool(value)


def text(most: int = MOST_BYTES, *, least: int = 0) -> Kind[str]:
    """A text of `least` to `most` characters."""

    def check(value: Any) -> str:
        if type(value) is not str:
            _wrong("a text", value)
        if not least <= len(value) <= most:
            raise Malformed(f"a text of {least} to {most} characters was expected, it has {len(value)}")
        return str(value)

    return check


def member(kind: type[E]) -> Kind[E]:
    """One of the texts of an enumeration."""

    def check(value: Any) -> E:
        try:
            return kind(text(32)(value))
        except ValueError:
            raise Malformed(f"one of {', '.join(kind)} was expected") from None

    return check


name: Final = text(_NAME_LENGTH, least=1)
"""An id, a host, an alias: short, and not empty."""
prose: Final = text()
"""A sentence for a person; may be empty."""


def topic_name(value: Any) -> str:
    """A topic's name, as Kafka allows them."""
    found = text(249)(value)
    if not _TOPIC.fullmatch(found):
        raise Malformed("the name of a topic was expected")
    return found


def uuid(value: Any) -> UUID:
    """A topic id in its canonical form."""
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


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Null, or a value of this kind."""
    return lambda value: None if value is None else kind(value)


def tuple_of(kind: Kind[T], most: int = LONG) -> Kind[tuple[T, ...]]:
    """A list of values of one kind, of at most this length."""

    def check(value: Any) -> tuple[T, ...]:
        if type(value) is not list:
            _wrong("a list", value)
        _few(value, most)
        return tuple(_at(f"[{number}]", kind, each) for number, each in enumerate(value))

    return check


def row(*kinds: Kind[Any], least: int | None = None) -> Kind[tuple[Any, ...]]:
    """A list with one value of each of these kinds.

    :param least: values after this number of them may be missing; None: none may
    """
    fewest = len(kinds) if least is None else least
    expected = f"{len(kinds)}" if least is None else f"{least} to {len(kinds)}"

    def check(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            _wrong("a list", value)
        if not fewest <= len(value) <= len(kinds):
            raise Malformed(f"a list of {expected} was expected, it has {len(value)}")
        return tuple(
            _at(f"[{n}]", kind, each) for n, (kind, each) in enumerate(zip(kinds, value, strict=False))
        )

    return check


def mapping_of(key: Kind[K], kind: Kind[T], most: int = LONG) -> Kind[dict[K, T]]:
    """An object with any keys of one kind and values of another, of at most this size."""

    def check(value: Any) -> dict[K, T]:
        if type(value) is not dict:
            _wrong("an object", value)
        _few(value, most)
        return {_at("a key", key, k): _at(str(k)[:80], kind, v) for k, v in value.items()}

    return check


class Fields:
    """The fields of an object. Fields that are never read come from a later drkit and are ignored."""

    def __init__(self, raw: Any) -> None:
        if type(raw) is not dict:
            _wrong("an object", raw)
        self.raw: Mapping[str, Any] = raw

    @classmethod
    def parse(cls, value: bytes) -> Fields:
        """The object in a record's value.

        :raises Malformed: it is not a JSON object
        """
        if len(value) > MOST_BYTES:
            raise Malformed(f"{len(value)} bytes, more than any record of drkit has")
        try:
            raw = json.loads(value, parse_constant=_no_constant, parse_float=_finite)
        except (ValueError, RecursionError):
            raw = None
        if type(raw) is not dict:
            raise Malformed(f"{len(value)} bytes, no JSON object: {value[:8].hex()}…")
        return cls(raw)

    @overload
    def get(self, field: str, kind: Kind[T]) -> T: ...

    @overload
    def get(self, field: str, kind: Kind[T], default: D) -> T | D: ...

    def get(self, field: str, kind: Kind[T], default: Any = _MISSING) -> Any:
        """A field; the default where it is missing, if there is one.

        :raises Malformed: it is missing, or of another type
        """
        if field not in self.raw:
            if default is _MISSING:
                raise Malformed(f"{field} is missing")
            return default
        return _at(field, kind, self.raw[field])


def _at(place: str, kind: Kind[T], value: Any) -> T:
    try:
        return kind(value)
    except Malformed as error:
        raise Malformed(f"{place}: {error}") from None


def _few(value: list[Any] | dict[str, Any], most: int) -> None:
    if len(value) > most:
        raise Malformed(f"at most {most} entries were expected, it has {len(value)}")


def _wrong(expected: str, value: Any) -> NoReturn:
    raise Malformed(f"{expected} was expected, not {_KINDS.get(type(value), 'something else')}")


_KINDS: Final[dict[type, str]] = {
    str: "a text", int: "an integer", float: "a fraction", bool: "a truth value", list: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    if not math.isfinite(found := float(digits)):
        raise ValueError(digits)
    return found
