"""Errors of a replay in drkit's own words: what a broker refused, where, and what to do."""

from __future__ import annotations

from typing import Final

from drkit.errors import DrkitError, Failed, NotAuthorized, Refused
from drkit.kafka import codes
from drkit.kafka.codes import error_name
from drkit.model import TopicPartition
from drkit.wire import Record

AGAIN: Final = "run the same command again: what was appended is not appended again"
_TOO_LARGE: Final = frozenset({codes.MESSAGE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE})


class ReplayTaken(Refused):
    """Another process replays into the partition, or this one was halted for too long."""


def taken(at: TopicPartition, alias: str, evidence: str) -> ReplayTaken:
    """The error of a replay that another process has fenced."""
    return ReplayTaken("replay_taken", where=f"{at} on {alias}", evidence=evidence)


def no_topic(topic: str, alias: str, evidence: str) -> Refused:
    """The error for a topic that is not what it was when it was promoted."""
    return Refused("replay_topic_recreated", where=f"{topic} on {alias}", evidence=evidence)


def too_large(at: TopicPartition, alias: str, offset: int, size: int, limit: int) -> Refused:
    """The error for a record that the topic does not take."""
    return Refused(
        "record_too_large",
        where=f"{at} on {alias}",
        evidence=f"offset {offset}: {size:,} bytes with drkit's header, the limit is {limit:,}",
    )


def wrong_time(at: TopicPartition, alias: str, record: Record, now: int) -> Refused:
    """The error for a record that is older, or later, than the topic takes."""
    age = now - record.timestamp
    evidence = f"offset {record.offset}: it is {abs(age):,} ms {'old' if age >= 0 else 'ahead of the clock'}"
    return _of_an_age(f"{at} on {alias}", evidence)


def _of_an_age(where: str, evidence: str) -> Refused:
    return Refused("record_too_old", where=where, evidence=evidence)


def refused_append(at: TopicPartition, alias: str, code: int, message: str | None) -> DrkitError:
    """The error for a batch that a leader did not take."""
    evidence = error_name(code) + (f": {message}" if message else "")
    if code in codes.FENCED:
        return taken(at, alias, evidence)
    if code in codes.NOT_AUTHORIZED:
        return not_authorized("append to", at, alias, code)
    if code in codes.NO_SUCH_TOPIC:
        return no_topic(at.topic, alias, evidence)
    return _not_taken(f"{at} on {alias}", code, evidence)


def _not_taken(where: str, code: int, evidence: str) -> DrkitError:
    """The error for a batch that does not fit the topic's settings."""
    if code in _TOO_LARGE:
        return Refused("batch_too_large", where=where, evidence=evidence)
    if code == codes.INVALID_TIMESTAMP:
        return _of_an_age(where, evidence)
    if code == codes.INVALID_RECORD:
        return Refused("record_refused", where=where, evidence=evidence)
    return Failed("batch_refused", where=where, evidence=evidence)


def not_authorized(verb: str, at: TopicPartition, alias: str, code: int) -> NotAuthorized:
    """The error for a partition that drkit may not read or write."""
    return NotAuthorized(
        "not_authorized_to_replay",
        where=f"{at} on {alias}",
        evidence=error_name(code),
        verb=verb,
        alias=alias,
    )
