"""Converts the answers of two clusters to the model of the status. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import is_of_other_key
from drkit.errors import DrkitError, NotAuthorized, Refused
from drkit.flow_state.copied_topics import written_of
from drkit.flow_state.records import ConfigsRecord, EventRecord, ReturnRecord, SourceSeenRecord
from drkit.flow_state.state import Damaged, FlowState
from drkit.model import TopicPartition
from drkit.pair.promotions import away_from, not_noted_since, promoted_of
from drkit.status.faults import NOT_AUTHORIZED, OTHER_KEY
from drkit.status.lag.source import NOTHING_HELD, Ends, UncopiedRecords, age_of
from drkit.status.lag.target import CopyPosition
from drkit.status.model import Fault, PartitionStatus

_NOT_KNOWN: Final[tuple[int | None, int | None, float | None, bool]] = (None, None, None, False)
_PREFERRED_MS: Final = 60_000
"""Maximum age of a note of all partitions that an incomplete one does not replace."""


def why_not_copied(state: FlowState, topic: str) -> str:
    """Return why a topic has no valid copy, from its newest event."""
    event = state.readable(EventRecord).get(EventRecord.name_of("topic_left_out", topic))
    reason = "" if event is None else str(event.fields.get("reason", ""))
    return f"not copied: {reason or 'the target has no copy of this topic'}"


def written_in(state: FlowState) -> tuple[str, ...]:
    """Return passive partitions to which another client wrote since a turn, with the offset.

    Topics that a failover has promoted since are excluded: clients write there.
    """
    found = sorted(written_of(state).items())
    return tuple(f"{at} at offset {r.offset}" for at, r in found if at.topic not in promoted_of(state))


def delayed_in(state: FlowState, flow: FlowSettings, now_ms: int) -> tuple[str, ...]:
    """Return the changes of topic settings that are delayed: the copies would keep fewer records.

    Expired ones are excluded: the next comparison follows them, or their topic is no longer copied.
    """
    seconds, promoted = flow.sync_topic_configs_delay_seconds, promoted_of(state)
    return tuple(
        f"{topic}: {each.in_words(setting, seconds)}"
        for topic, found in sorted(state.readable(ConfigsRecord).items())
        if topic not in promoted
        for setting, each in sorted((found.delayed or {}).items())
        if now_ms < each.until_ms(seconds)
    )


def unread_state(host: ClusterSettings, error: DrkitError) -> Fault | None:
    """Return the fault of a state that cannot be read although the target answers; else None.

    The control key of this host does not sign it, or drkit may not read it.
    """
    if isinstance(error, NotAuthorized):
        return Fault(NOT_AUTHORIZED, f"{error.in_full}; {error.hint}")
    if not isinstance(error, Damaged):
        return None
    shown: DrkitError = error
    if is_of_other_key(error.evidence):
        own = f"it has {host.control.current.fingerprint}" if host.control else "it has none"
        shown = Refused(OTHER_KEY, evidence=f"{own}; {error.evidence}")
    return Fault(OTHER_KEY, f"{shown.in_short}; {shown.hint}")


def status_of(
    now_ms: int,
    tp: TopicPartition,
    target: str,
    position: CopyPosition,
    ends: Ends | None,
    uncopied: UncopiedRecords | None,
) -> PartitionStatus:
    """Return the status of one partition, from its position and its uncopied records.

    :param ends: None where unknown
    :param uncopied: None: nothing waits
    """
    held = ends.held_from(position.frontier) if ends else NOTHING_HELD
    reason, lag, dropped = position.reason, _NOT_KNOWN, position.dropped
    if position.frontier is not None and ends is not None:
        uncopied = uncopied or UncopiedRecords(0, 0, None, exact=True)
        seconds = 0.0 if uncopied.records == 0 else age_of(uncopied.oldest_ms, now_ms)
        reason = reason or (uncopied.reason if seconds is None else "")
        lag = uncopied.records, uncopied.bytes, seconds, uncopied.exact and position.exact
        dropped = max(dropped, ends.dropped(position.frontier))
    else:
        reason = reason or "the end of the source's partition is unknown"
    return PartitionStatus(
        *(tp.topic, target, tp.partition, position.frontier), ends.end if ends else None, position.target_end,
        *lag, segments=position.segments, reason=reason, high_watermark=ends.high_watermark if ends else None,
        held_back=held, held_back_seconds=age_of(held.oldest_ms, now_ms) if held.acknowledged else 0.0,
        missing=position.missing, dropped=dropped,
    )  # fmt: skip


def noted(ends: Ends, copied: int, status: PartitionStatus | None, now_ms: int) -> Ends:
    """Return a partition's ends with its copied position.

    :param copied: first offset that is not there, or 0 if unknown
    :param status: None: another partition of its topic has no answer
    """
    seconds = None if status is None or status.records is None else status.risk_seconds
    oldest = None if seconds == 0 else max(0, now_ms - round(1000 * seconds)) if seconds else 0
    return ends._replace(held=ends.held_from(None), copied=copied, missing_ms=oldest)


def seen_record(
    ends: Mapping[TopicPartition, Ends],
    now_ms: int,
    copied_ms: int | None = None,
    returns: Mapping[str, ReturnRecord] = MappingProxyType({}),
) -> SourceSeenRecord:
    """Return the record of the source's ends for the flow's state.

    :param copied_ms: time before which everything was copied, or None if unknown
    :param returns: the turns on record before the ends were read
    """
    turns = Counter(begun.run_id for begun in returns.values())
    return SourceSeenRecord(now_ms, ends, copied_ms, turns)


def noted_ends(state: FlowState) -> dict[TopicPartition, Ends]:
    """Return the source's ends at its last answer, without topics that were turned or promoted since."""
    seen = state.get(SourceSeenRecord)
    if seen is None:
        return {}
    turned = _not_noted(state)
    return {tp: ends for tp, ends in seen.ends.items() if tp.topic not in turned}


def _not_noted(state: FlowState) -> frozenset[str]:
    return not_noted_since(state) | away_from(state).keys()


def is_whole_note(state: FlowState) -> bool:
    """Return whether the last record of the source's ends has all partitions of the copied topics.

    Ends of a topic that a return began to copy since do not count.
    """
    seen = state.get(SourceSeenRecord)
    return seen is not None and seen.copied_ms is not None and not _not_noted(state)


def is_note_preferred(state: FlowState, ends: Collection[TopicPartition], now_ms: int) -> bool:
    """Return whether the last note serves a failover better than a note of an incomplete look.

    While the brokers of a source die one after the other, or elect leaders, some partitions have no answer. A
    note without them makes the loss unknown if the rest of the source dies, too. A slightly older note of all
    partitions bounds it.

    :param ends: partitions that answered at the incomplete look; a note without one of them is not preferred
    """
    seen = state.get(SourceSeenRecord)
    if seen is None or not is_whole_note(state) or not seen.ends.keys() >= set(ends):
        return False
    return 0 <= now_ms - seen.at_ms <= _PREFERRED_MS
