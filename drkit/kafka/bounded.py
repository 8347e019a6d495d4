"""Changes of topics, cut into requests that a controller takes, and other work cut by weight.

A KRaft controller carries out a request as one batch of at most 10,000 records of its metadata log
(``QuorumController.MAX_RECORDS_PER_USER_OP``), and refuses a larger one as a whole, as a violation of policy:
300 topics of 32 partitions with their settings are more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

MOST_RECORDS: Final = 5_000
"""Half of what is taken: a controller writes some records besides those that are asked for."""
T = TypeVar("T")


def in_requests(items: Iterable[T], records: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield items together, as many as make a request that a controller takes; an item is not divided.

    :param records: about how many records of the metadata log an item takes
    """
    return in_parts(items, records, MOST_RECORDS)


def in_parts(items: Iterable[T], weight: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield items in their order, as many together as weigh at most so much; an item is not divided."""
    some: list[T] = []
    size = 0
    for item in items:
        more = weight(item)
        if some and size + more > most:
            yield some
            some, size = [], 0
        some.append(item)
        size += more
    if some:
        yield some
