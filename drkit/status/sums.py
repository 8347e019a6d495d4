"""Sums over the partitions of a flow: by topic, the loss if the primary dies now, what is held back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drkit.counted import total, utc
from drkit.model import TopicPartition
from drkit.status.lag.held_back import OpenTransaction
from drkit.status.lag.source import HeldBack, age_of
from drkit.status.model import Findings, FlowStatus, Loss, PartitionStatus, TopicStatus, oldest_of
from drkit.status.pair.facts import TopicLag


def topics_of(partitions: Iterable[PartitionStatus]) -> tuple[TopicStatus, ...]:
    """Sums by topic, in the order of their names."""
    return tuple(_topic(found) for _, found in sorted(_by_topic(partitions).items()))


def _by_topic(partitions: Iterable[PartitionStatus]) -> dict[str, list[PartitionStatus]]:
    by_topic: dict[str, list[PartitionStatus]] = {}
    for p in partitions:
        by_topic.setdefault(p.topic, []).append(p)
    return by_topic


def _topic(found: list[PartitionStatus]) -> TopicStatus:
    unknown = [p for p in found if p.records is None]
    return TopicStatus(
        topic=found[0].topic,
        target_topic=found[0].target_topic,
        partitions=len(found),
        records=total(p.records for p in found),
        bytes=total(p.bytes for p in found),
        seconds=oldest_of([p.seconds for p in found]),
        exact=all(p.exact for p in found),
        unknown_partitions=len(unknown),
        reason=next((p.reason for p in sorted(found, key=lambda p: not p.is_unknown) if p.reason), ""),
        held_back=sum(p.held_back.records for p in found),
    )


def lags_of(status: FlowStatus) -> dict[str, TopicLag]:
    """Return how far a flow is with each topic."""
    partitions = _by_topic(status.partitions)
    return {t.topic: _lag(t, partitions.get(t.topic, [])) for t in status.topics}


def unanswered_in(found: Findings) -> dict[str, tuple[int, ...]]:
    """Return topics → partitions whose ends the source, which answered, did not return."""
    away = _by_topic(p for p in found.partitions if p.source_end is None and not found.source_error)
    return {topic: tuple(p.partition for p in partitions) for topic, partitions in away.items()}


def _lag(t: TopicStatus, found: list[PartitionStatus]) -> TopicLag:
    ages = tuple(p.seconds for p in found)
    missing = sum(p.missing for p in found)
    absent = sum((p.frontier, p.target_end) == (0, None) for p in found)
    known = t.records, t.seconds, t.reason, t.bytes, ages
    return TopicLag(*known, copy=t.target_topic, missing=missing, absent=absent)


def copied_ms(found: Findings, loss: Loss) -> int | None:
    """Time before which everything was copied when both clusters answered last; None: not known."""
    if found.source_error or found.target_error:
        gone = any(p.gone for p in found.partitions if p.topic not in found.promoted)
        return None if gone else found.noted_copied_ms
    if loss.seconds is None or unanswered_in(found):
        return None
    return min(found.at_ms, found.read_ms - round(loss.seconds * 1000))


def loss_of(found: Findings, partitions: list[PartitionStatus]) -> Loss:
    """The loss over all topics except heartbeats.

    Records that open transactions hold back are lost, too: they count as an upper bound.
    """
    seen = age_of(found.source_seen_ms, found.at_ms) if found.source_error else 0.0
    held = sum(p.held_back.records for p in partitions)
    exact = seen == 0.0 and not held and all(p.exact for p in partitions)
    if found.target_error or seen is None:
        return Loss(None, None, None, exact=False, source_seen_seconds=seen)
    return Loss(
        records=total(p.at_risk for p in partitions),
        bytes=total(x for p in partitions for x in (p.bytes, p.held_back.bytes)),
        seconds=oldest_of([p.risk_seconds for p in partitions]),
        exact=exact,
        source_seen_seconds=seen,
        held_back=held,
        acknowledged=sum(p.held_back.acknowledged for p in partitions),
    )


class HeldBy(NamedTuple):
    """An open transaction of one partition."""

    producer_id: int
    transactional_id: str | None
    since: str | None
    """The time of its begin in UTC, or None if unknown."""
    end_it: str
    """The command that ends it now."""


class HeldPartition(NamedTuple):
    """Records that open transactions hold back in one partition of the source."""

    topic: str
    partition: int
    records: int
    """Upper bound; these records are not copied."""
    acknowledged: int
    """Of `records`: those not known to belong to an undecided transaction."""
    transactions: tuple[HeldBy, ...]
    """The oldest first; empty if the brokers do not report them."""

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
    """Return the partitions with records that are held back, the largest numbers first.

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
        HeldPartition(*tp, each.records, each.acknowledged, tuple(by.get(tp, ())))
        for tp, each in largest
        if each.records
    )


def held_of(status: FlowStatus) -> tuple[HeldPartition, ...]:
    """Return the partitions with held back records at the last look at a running flow."""
    held = {TopicPartition(p.topic, p.partition): p.held_back for p in status.partitions}
    return held_partitions(held, (t for t in status.open_transactions if t.source), status.at_ms)
