"""From what two clusters said to the model of the status. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final
from uuid import UUID

from drkit.errors import DrkitError
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.replicate.lag_source import NOTHING_HELD, Ends, HeldBack, Waiting
from drkit.replicate.lag_target import Copied, Place
from drkit.replicate.status import PartitionStatus
from drkit.replicate.topic_rules import PROMOTION, role_key

SOURCE_SEEN: Final = "source-seen"
"""Key in the flow's state of the source's last known ends: what counts when the source is gone."""


def copied_of(key: str, entry: Mapping[str, Any]) -> Copied:
    """A topic of the flow's registry, by its key and record."""
    topic = key.removeprefix("topic/")
    return Copied(topic, UUID(entry["source_id"]), entry["target"], UUID(entry["target_id"]))


def same_topic(copied: Copied, now: TopicMetadata | None) -> bool:
    """Whether the source still has the topic that was copied; while it is silent nobody says otherwise."""
    return now is None or now.topic_id == copied.source_id


def term_of(values: Mapping[str, Any]) -> int:
    """The generation of a flow's role, from its state; 0 before the first failover."""
    roles = (v for k, v in values.items() if k == PROMOTION or k.startswith(role_key("")))
    return max((int(r.get("term", 0)) for r in roles), default=0)


def said(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, DrkitError):
        return f"{error.what} ({error.evidence})" if error.evidence else error.what
    return str(error) or type(error).__name__


def status_of(
    now_ms: int, at: TopicPartition, target: str, place: Place, ends: Ends | None, found: Waiting | None
) -> PartitionStatus:
    """One partition, by where it stands and what waits.

    :param ends: None where nobody knows them
    :param found: None: nothing waits
    """
    end, mark = (ends.end, ends.high_watermark) if ends else (None, None)
    held = ends.held_from(place.frontier) if ends else NOTHING_HELD
    held_seconds = _age(now_ms, held.oldest_ms) if held.acknowledged else 0.0
    if place.frontier is None or ends is None:
        reason = place.reason or "the end of the source's partition is not known"
        return PartitionStatus(
            *(at.topic, target, at.partition, place.frontier, end, place.target_end, None, None, None),
            exact=False, segments=place.segments, reason=reason,
            high_watermark=mark, held_back=held, held_back_seconds=held_seconds,
        )  # fmt: skip
    found = found or Waiting(0, 0, None, exact=True)
    seconds = 0.0 if found.records == 0 else _age(now_ms, found.oldest_ms)
    return PartitionStatus(
        *(at.topic, target, at.partition, place.frontier, end, place.target_end, found.records, found.bytes),
        seconds, exact=found.exact and place.exact, segments=place.segments, reason=place.reason,
        high_watermark=mark, held_back=held, held_back_seconds=held_seconds,
    )  # fmt: skip


def _age(now_ms: int, oldest_ms: int | None) -> float | None:
    return None if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000


def seen_record(ends: Mapping[TopicPartition, Ends], now_ms: int) -> dict[str, Any]:
    """The record of what was seen of the source: start, last stable offset, high watermark, what is held."""
    topics: dict[str, dict[str, list[Any]]] = {}
    for at, e in ends.items():
        seen: list[Any] = [e.start, e.end]
        if e.high_watermark is not None:
            seen += [e.high_watermark] + ([list(astuple(e.held))] if e.held is not None else [])
        topics.setdefault(at.topic, {})[str(at.partition)] = seen
    return {"at_ms": now_ms, "topics": topics}


def ends_from(seen: Mapping[str, Any]) -> dict[TopicPartition, Ends]:
    """Read back what :func:`seen_record` made; notes of older versions have no high watermarks."""
    return {
        TopicPartition(topic, int(number)): _ends(*place)
        for topic, partitions in seen["topics"].items()
        for number, place in partitions.items()
    }


def _ends(start: int, end: int, mark: int | None = None, held: Sequence[Any] | None = None) -> Ends:
    return Ends(start, end, mark, None if held is None else HeldBack(*held))
