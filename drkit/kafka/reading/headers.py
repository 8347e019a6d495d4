"""Headers of a record as a consumer has them, whatever bytes their names are made of.

Brokers take any bytes for a header's name. For a name that is not UTF-8, `Message.headers` of confluent-kafka
sets an exception and returns a list in which that name is a null pointer. Where the interpreter has
specialized the call, it does not look for the exception: the list is used, and the process ends with a
segmentation fault. A second call returns that list without an exception. Only this module calls it.
"""

from __future__ import annotations

import gc
from operator import methodcaller
from typing import Any, Final

from confluent_kafka import Message

from drkit.control_key import Headers

NOT_TEXT: Final = "\0"
"""Replaces a name that is not UTF-8. No other name is equal: librdkafka ends names at a zero byte."""
_CALL: Final = methodcaller("headers")
"""A call from C: its result is always checked."""


def headers_of(message: Message) -> Headers:
    """The headers of a record of drkit's own topics; empty if a name is not UTF-8.

    drkit writes no such names: a record with one comes from elsewhere, and must not end its reader.
    """
    found = all_headers(message)
    return () if any(name == NOT_TEXT for name, _ in found) else found


def all_headers(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of any record; a name that is not UTF-8 is :data:`NOT_TEXT`."""
    return [_readable(header) for header in _kept(message)]


def _kept(message: Message) -> list[Any]:
    for _ in range(2):  # the first call raises for a name that is not UTF-8; the second returns the list
        try:
            return _CALL(message) or []
        except (SystemError, UnicodeDecodeError):
            continue
    return []


def _readable(header: tuple[Any, Any]) -> tuple[str, bytes | None]:
    items = gc.get_referents(header)  # leaves out a null pointer
    return header if len(items) == len(header) else (NOT_TEXT, items[0])
