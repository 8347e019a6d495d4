"""From what two clusters said to the model of the status. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from drkit.errors import DrkitError
from drkit.flow_state.records import GenerationRecord, PromotionRecord, RoleRecord, SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.replicate.lag_source import Ends, Waiting
from drkit.replicate.lag_target import Copied, Place
from drkit.replicate.status import PartitionStatus


def copied_of(topic: str, entry: GenerationRecord) -> Copied:
    """A topic of the flow's registry."""
    return Copied(topic, entry.source_id, entry.target, entry.target_id)


def same_topic(copied: Copied, now: TopicMetadata | None) -> bool:
    """Whether the source still has the topic that was copied; while it is silent nobody says otherwise."""
    return now is None or now.topic_id == copied.source_id


def term_of(state: FlowState) -> int:
    """The generation of a flow's role, from its state; 0 before the first failover."""
    promotion = state.get(PromotionRecord)
    terms = [role.term for role in state.all(RoleRecord).values()]
    return max([*terms, promotion.term if promotion is not None else 0])


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
    end = ends.end if ends else None
    if place.frontier is None or ends is None:
        reason = place.reason or "the end of the source's partition is not known"
        return PartitionStatus(
            *(at.topic, target, at.partition, place.frontier, end, place.target_end, None, None, None),
            exact=False, segments=place.segments, reason=reason,
        )  # fmt: skip
    found = found or Waiting(0, 0, None, exact=True)
    age = None if found.oldest_ms is None else max(0, now_ms - found.oldest_ms) / 1000
    seconds = 0.0 if found.records == 0 else age
    return PartitionStatus(
        *(at.topic, target, at.partition, place.frontier, end, place.target_end, found.records, found.bytes),
        seconds, exact=found.exact and place.exact, segments=place.segments, reason=place.reason,
    )  # fmt: skip


def seen_record(ends: Mapping[TopicPartition, Ends], now_ms: int) -> SourceSeenRecord:
    """The record of what was seen of the source."""
    return SourceSeenRecord(now_ms, {at: (start, end) for at, (start, end) in ends.items()})


def ends_from(seen: SourceSeenRecord) -> dict[TopicPartition, Ends]:
    """Read back what :func:`seen_record` made."""
    return {at: Ends(*ends) for at, ends in seen.ends.items()}
