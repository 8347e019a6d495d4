"""Partitions in which open transactions hold records back, as `drkit replicate` reports them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drkit.counted import utc
from drkit.model import TopicPartition
from drkit.status.lag.hanging import OpenTransaction
from drkit.status.lag.source import HeldBack
from drkit.status.model import FlowStatus


class HeldBy(NamedTuple):
    """An open transaction of one partition."""

    producer_id: int
    transactional_id: str | None
    since: str | None
    """When it began, in UTC; None: unknown."""
    end_it: str
    """The command that ends it now."""


class HeldPartition(NamedTuple):
    """What open transactions hold back in one partition of the source."""

    topic: str
    partition: int
    records: int
    """Upper bound; these records are not copied."""
    acknowledged: int
    """Of `records`: those not known to belong to an undecided transaction."""
    transactions: tuple[HeldBy, ...]
    """The oldest first; empty where the brokers do not say who holds them."""

    def text(self) -> str:
        """In one line."""
        text = f"{self.topic}-{self.partition}: up to {self.records:,} records"
        for number, by in enumerate(self.transactions):
            text += f"{', and' if number else ' by'} producer id {by.producer_id}"
            text += f" since {by.since}" if by.since is not None else ""
        return text


def held_partitions(
    held: Mapping[TopicPartition, HeldBack], transactions: Iterable[OpenTransaction], now_ms: int
) -> tuple[HeldPartition, ...]:
    """What is held back, the largest numbers first.

    :param transactions: of the source
    :param now_ms: when their ages were measured
    """
    by: dict[TopicPartition, list[HeldBy]] = {}
    for t in transactions:
        since = None if t.age_seconds is None else utc(round(now_ms - 1000 * t.age_seconds))
        holder = HeldBy(t.producer_id, t.transactional_id, since, t.command)
        by.setdefault(TopicPartition(t.topic, t.partition), []).append(holder)
    largest = sorted(held.items(), key=lambda item: (-item[1].records, item[0]))
    return tuple(
        HeldPartition(*at, back.records, back.acknowledged, tuple(by.get(at, ())))
        for at, back in largest
        if back.records
    )


def held_of(status: FlowStatus) -> tuple[HeldPartition, ...]:
    """What the last look at a running flow saw."""
    held = {TopicPartition(p.topic, p.partition): p.held_back for p in status.partitions}
    return held_partitions(held, (t for t in status.open_transactions if t.source), status.at_ms)
