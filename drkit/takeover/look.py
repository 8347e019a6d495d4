"""Reads as much of both sides of a partition as needed to find where MirrorMaker 2 stopped."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.kafka.admin import Cluster
from drkit.kafka.clients import TIMESTAMP_LOG_APPEND_TIME, Message
from drkit.kafka.reading.headers import all_headers
from drkit.kafka.reading.log_reader import read_partitions
from drkit.kafka.topics import list_offsets
from drkit.model import TopicPartition
from drkit.offsets.alignment import Aligned, Fingerprints, NotAligned, align, fingerprint

CONTEXT: Final = 10_000
"""Offsets before the stored one that are compared too: group offsets there are exact from the start."""
_BEYOND: Final = 10_000
"""Records after a possible alignment in which another one is searched."""
_MOST: Final = 10_000_000
"""Most records of the source that are read, 16 bytes of memory each."""

Side = tuple[Cluster, TopicPartition]


class Compared(NamedTuple):
    """Where MM2 stopped."""

    place: Aligned
    whole: bool
    """All records on the target were found on the source."""
    committed: bool
    """MM2 left out records of aborted transactions; by default it does not (isolation.level)."""

    @property
    def agreed(self) -> int:
        """Number of records that both sides have up to that alignment."""
        return sum(n for _, _, n in self.place.segments)


class _Last(NamedTuple):
    """The end of the target's log."""

    records: Fingerprints
    from_start: bool
    broker_times: bool
    """Timestamps are the target brokers' own, so they say nothing of the source."""


def compare(source: Side, target: Side, bounds: tuple[int, int], stored: int | None) -> Compared | NotAligned:
    """Find the source offset up to which a partition was copied.

    :param bounds: the target's first offset and its last stable offset
    :param stored: the last source offset that MM2 is sure to have copied
    :raises DrkitError: a cluster does not answer
    """
    answer = _compare(source, target, bounds, stored, committed=True)
    if isinstance(answer, Compared) and answer.whole:
        return answer
    other = _compare(source, target, bounds, stored, committed=False)
    if isinstance(other, Compared) and (isinstance(answer, NotAligned) or other.agreed > answer.agreed):
        return other
    return answer


def _compare(
    source: Side, target: Side, bounds: tuple[int, int], stored: int | None, *, committed: bool
) -> Compared | NotAligned:
    last = _read_target(target, bounds, CONTEXT)
    begin = list_offsets(source[0], [source[1]], "earliest")[source[1]]
    begin = begin if stored is None else max(begin, stored + 1 - CONTEXT)
    read = _read_source(source, begin, stored, last, committed=committed)
    floor = -1 if stored is None else stored
    behind = sum(1 for offset in read.offsets if offset > floor)
    if behind > len(last.records) and not last.from_start:
        # Markers of transactions take offsets too: at most one for every record.
        last = _read_target(target, bounds, 2 * behind + CONTEXT)
    answer = align(read, last.records, stored)
    if isinstance(answer, NotAligned):
        return answer
    found = Compared(answer, whole=False, committed=committed)
    return found._replace(whole=last.from_start and found.agreed == len(last.records))


def _read_target(target: Side, bounds: tuple[int, int], offsets: int) -> _Last:
    start, end = bounds
    begin = max(start, end - offsets)
    with_times, without, broker_times = Fingerprints(), Fingerprints(), False

    def take(message: Message) -> bool:
        nonlocal broker_times
        offset = message.offset() or 0
        if offset < end:
            broker_times = message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
            with_times.add(offset, content(message, times=True))
            without.add(offset, content(message, times=False))
        return offset >= end - 1

    if begin < end:
        read_partitions(target[0].settings, {target[1]: begin}, take)
    return _Last(without if broker_times else with_times, begin == start, broker_times)


def _read_source(
    source: Side, begin: int, stored: int | None, last: _Last, *, committed: bool
) -> Fingerprints:
    """Read from `begin` to the end, or until a while after the target's last record was found."""
    found = Fingerprints()
    wanted = last.records.hashes[-1] if len(last.records) else None
    left = _MOST

    def take(message: Message) -> bool:
        nonlocal left
        offset, seen = message.offset() or 0, content(message, times=not last.broker_times)
        found.add(offset, seen)
        left -= 1
        if seen == wanted and offset >= (stored or 0):
            left = min(left, _BEYOND)
        return left <= 0

    read_partitions(source[0].settings, {source[1]: begin}, take, committed=committed)
    return found


def content(message: Message, *, times: bool) -> int:
    """A hash of what a consumer sees of a record."""
    time = message.timestamp()[1] if times else None
    return fingerprint(message.key(), message.value(), all_headers(message), time)
