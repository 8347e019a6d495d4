"""The loss by partition: exact where the source answers, otherwise the offset from which records are lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from drkit.counted import counted, first_of, total
from drkit.detect.risk import Risk
from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import LossEvidence
from drkit.failover.loss.findings import epoch_word
from drkit.failover.loss.positions import NO_PARTITION, ScopePositions
from drkit.failover.loss.silent import silent_risk
from drkit.flow_state.left_out import LeftOut
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.record_cursor import EpochEnd, RecordCursor, Unreadable, epoch_ends, leader_fetch
from drkit.kafka.requests import LATEST, TopicMetadata, listed, metadata
from drkit.kafka.topics import not_deleted
from drkit.model import TopicPartition
from drkit.next_command import typed
from drkit.offsets import Unavailable
from drkit.offsets.translation import PartitionPosition
from drkit.status.facts import noted_ends
from drkit.status.lag.held_back import held_back, with_held
from drkit.status.lag.source import Ends, HeldBack, UncopiedRange, age_of, ends_of, held_text, held_total
from drkit.status.lag.target import unclear
from drkit.status.model import oldest_of

_FETCH_BYTES: Final = 4 << 20
_AT_ONCE: Final = 8
MOST_BYTES: Final = 512 << 20
"""Maximum bytes read from one partition; later records are not counted, and the result shows that."""
_LATE: Final = 1 << 63
DELETED: Final = "deleted on the source"
_Place = PartitionPosition | Unavailable


class Counted(NamedTuple):
    """The records of a gap."""

    records: int
    bytes: int
    oldest_ms: int | None
    next_offset: int
    """The first source offset that was not read; the end of the gap when all of it was."""


async def count_gaps(
    source: RawCluster, gaps: Iterable[UncopiedRange], skip: LeftOut
) -> dict[TopicPartition, Counted]:
    """Count the visible records in each gap that the flow copies. Raises RawError if the source is silent."""
    ranges = list(gaps)
    topics = await metadata(source, sorted({g.at.topic for g in ranges})) if ranges else {}
    counts = await source.loop.some_at_once(lambda gap: _count(source, topics, gap, skip), ranges, _AT_ONCE)
    return {gap.at: count for gap, count in zip(ranges, counts, strict=True)}


async def _count(
    source: RawCluster, topics: Mapping[str, TopicMetadata], gap: UncopiedRange, skip: LeftOut
) -> Counted:
    records, size, position, oldest = 0, 0, gap.start, _LATE
    topic = topics.get(gap.at.topic)
    if topic is None or gap.at.partition not in topic.leaders:
        return Counted(0, 0, None, gap.start)  # the source does not have it any more
    fetch = leader_fetch(source, topic, gap.at)
    try:
        for start, end, without in skip.parts(gap.at, gap.start, gap.end):
            cursor = RecordCursor(str(gap.at), fetch, (start, end), without=without, fetch_bytes=_FETCH_BYTES)
            while size < MOST_BYTES and (step := await cursor.next()) is not None:
                times = [r.timestamp for r in step.records]
                records, position, oldest = records + len(times), cursor.position, min([oldest, *times])
                size += sum(chunk.size for chunk in step.found.chunks)
    except Unreadable:
        pass  # the result shows how far it was read
    return Counted(records, size, oldest if records else None, position)


class Lost(NamedTuple):
    """One partition of the source."""

    topic: str
    partition: int
    lost_from: int | None = None
    """First source offset that is not on the target, nor is any later one. None if unknown."""
    end: int | None = None
    """Its last stable offset; for a silent source the last recorded one. None if none was recorded."""
    records: int | None = None
    """Records from `lost_from` to `end`; a silent source may have more after `end`."""
    bytes: int | None = None
    oldest_ms: int | None = None
    open_transaction: bool = False
    """Whether records after the end belong to a transaction that is still open."""
    exact: bool = False
    reason: str = ""
    high_watermark: int | None = None
    """For a silent source the last recorded one; None if unknown."""
    held_back: int = 0
    """Upper bound on records between the last stable offset and the high watermark, not in `records`."""
    held_acknowledged: int = 0
    """Upper bound on those of `held_back` not known to belong to an undecided transaction."""
    held_oldest_ms: int | None = None
    """Timestamp of the oldest record of `held_acknowledged`, in milliseconds."""
    missing_from: int | None = None
    """First source offset that was copied, and that the target has removed before its time, or None."""
    missing: int = 0
    """Upper bound on such records, not in `records`."""
    dropped: int = 0
    """Of `records`: those that were copied, and that the target has lost at the end of its log."""
    unreplicated: int = 0
    """Offsets that the source's leader alone has: their producers may still get an acknowledgement."""

    def held(self, ends: Ends | None, frontier: int | None) -> Lost:
        """Return a copy with the records that open transactions hold back."""
        if ends is None:
            return self
        back = ends.held_from(frontier)
        return self._replace(
            high_watermark=ends.high_watermark, held_back=back.records,
            held_acknowledged=back.acknowledged, held_oldest_ms=back.oldest_ms,
        )  # fmt: skip

    def removed(self, place: _Place | None, reason: str = "") -> Lost:
        """Return a copy with the records that were copied and that the target has removed.

        :param reason: why it is unknown which of them the source keeps
        """
        if not isinstance(place, PartitionPosition) or place.missing is None:
            return self
        first, end = place.missing
        return self._replace(missing_from=first, missing=end - first, reason=self.reason or reason)


def lost_partitions(context: Context, places: ScopePositions, source: RawCluster | None) -> list[Lost]:
    """Return the loss of each partition of the scope. Raises RawError if the source stopped answering."""
    noted, known = noted_ends(context.state.records), context.known
    if source is None:
        found = sorted(places.items())
        return [_of_silent(tp, p, noted.get(tp)).removed(p, unclear(known, tp)) for tp, p in found]
    skip = known.left_out
    ends, behind, epochs = context.run(_ends, source, places, skip)
    places = {tp: reaching(_before_regrown(p, epochs.get(tp)), ends.get(tp)) for tp, p in places.items()}
    gaps = [UncopiedRange(tp, *span) for tp, p in places.items() if (span := span_of(p)) is not None]
    counts: dict[TopicPartition, Counted] = context.run(count_gaps, source, gaps, skip) if gaps else {}
    silent = {tp.topic for tp, p in places.items() if not isinstance(p, Unavailable) and p.source_end is None}
    deleted, planned = silent - context.run(not_deleted, source, silent).keys(), context.request.planned
    lost = [
        _of_deleted(tp, p, noted.get(tp), planned=planned)
        if tp.topic in deleted and isinstance(p, PartitionPosition)
        else of_answering(tp, p, counts.get(tp), ends.get(tp)).removed(p, unclear(known, tp))
        for tp, p in sorted(places.items())
    ]
    # A topic may have grown since the scope was compared, and the standby does not have that partition yet.
    lost += [_of_added(tp, e) for tp, e in sorted(ends.items()) if tp not in places]
    return [p._replace(unreplicated=behind.get(TopicPartition(p.topic, p.partition), 0)) for p in lost]


async def _ends(
    source: RawCluster, places: ScopePositions, skip: LeftOut
) -> tuple[dict[TopicPartition, Ends], dict[TopicPartition, int], dict[TopicPartition, EpochEnd]]:
    topics = await metadata(source, sorted({tp.topic for tp in places}))
    ends = await ends_of(source, topics, [n for n, t in topics.items() if not t.error])
    logs = await listed(source, topics, ends, LATEST, written=True)
    behind = {tp: logs[tp] - (e.high_watermark or 0) if tp in logs else 1 for tp, e in ends.items()}
    copied = {tp: p.leader_epoch for tp, p in places.items() if isinstance(p, PartitionPosition)}
    epochs = await epoch_ends(source, topics, {tp: epoch for tp, epoch in copied.items() if epoch >= 0})
    return with_held(ends, await held_back(source, topics, ends, skip)), behind, epochs


def _before_regrown(place: _Place, epoch: EpochEnd | None) -> _Place:
    """Let the loss begin where the source, from an older disk, has written other records than were copied."""
    if isinstance(place, Unavailable):
        return place
    word = epoch_word(place.leader_epoch, epoch, place.segments.frontier(place.copied_end) or 0)
    return place if word.other_from is None else replace(place, frontier=word.other_from)


def span_of(place: _Place) -> tuple[int, int] | None:
    """Return the source offsets that are not on the target, or None if none is missing or it is unknown."""
    if isinstance(place, Unavailable) or place.source_end is None:
        return None
    start = _from(place)
    return (start, place.source_end) if start is not None and start < place.source_end else None


def _from(place: PartitionPosition) -> int | None:
    if place.frontier is None:
        return place.source_start
    return max(place.frontier, place.source_start or 0)


def _of_silent(tp: TopicPartition, place: _Place, ends: Ends | None) -> Lost:
    if isinstance(place, Unavailable):
        return Lost(*tp, reason=place.reason)
    first = ends.start if ends is not None else 0
    start = first if place.frontier is None else place.frontier
    if ends is None:
        return Lost(*tp, start, dropped=place.dropped)
    end = max(ends.end, start + place.dropped)  # the map may have records that came after the note
    return Lost(*tp, start, end, end - start, dropped=place.dropped).held(ends, place.frontier)


def reaching(place: _Place, ends: Ends | None) -> _Place:
    """Return a position with the later of two ends of the source: its own, and the one in `ends`.

    The high watermark in `ends` is from the same moment as its end. An earlier end would make an open
    transaction of all that was written since, and records committed since would not be missing.
    """
    if isinstance(place, Unavailable) or place.source_end is None or ends is None:
        return place
    return replace(place, source_end=max(place.source_end, ends.end))


def of_answering(tp: TopicPartition, place: _Place, counted: Counted | None, ends: Ends | None) -> Lost:
    """Return the loss of one partition.

    :param place: with the end up to which `counted` was read: :func:`reaching`
    :param ends: read after `place`, or None if its leader does not answer
    """
    if isinstance(place, Unavailable):
        return Lost(*tp, reason=place.reason)
    if place.source_end is None:
        return Lost(*tp, reason="the source does not tell its end")
    end, start = place.source_end, _from(place)
    written = ends.high_watermark if ends is not None else None
    records, size, oldest, read_up_to = counted or Counted(0, 0, None, end)
    lost = Lost(*tp, start, end, records, size, oldest, exact=read_up_to >= end)
    is_open = written is None or written > end
    return lost._replace(open_transaction=is_open).held(ends, place.frontier)


def _of_deleted(tp: TopicPartition, place: PartitionPosition, noted: Ends | None, *, planned: bool) -> Lost:
    """Return the loss of a topic that was deleted on the source: the records that were not copied by then.

    Its copy has the rest. A switchover loses nothing more of it, and waiting does not help.

    :param noted: its last recorded ends, or None
    """
    start = place.frontier
    missing = None if noted is None else max(0, noted.end - (noted.start if start is None else start))
    reason = DELETED
    if missing != 0:
        reason += f", {'an unknown number of' if missing is None else missing} records were not copied before"
    if planned or missing == 0:
        return Lost(*tp, start, start, records=0, bytes=0, exact=True, reason=reason)
    return Lost(*tp, start, noted.end if noted is not None else None, records=missing, reason=reason)


def _of_added(tp: TopicPartition, ends: Ends) -> Lost:
    """Return the loss of a partition that the target does not have; the age of its records is not read."""
    if ends.end == ends.start and not ends.held_offsets:
        return Lost(*tp, ends.start, ends.end, records=0, bytes=0, exact=True)
    return Lost(*tp, ends.start, ends.end, reason=NO_PARTITION.reason).held(ends, None)


def is_drained(lost: Sequence[Lost]) -> bool:
    """Return whether nothing is missing, and neither a follower nor a transaction can move an end."""
    return all(p.exact and p.records == 0 and not (p.open_transaction or p.unreplicated) for p in lost)


def held_of(lost: Sequence[Lost]) -> HeldBack:
    """Return what open transactions hold back in all partitions, as of the last answer of the source."""
    return held_total(HeldBack(p.held_back, p.held_acknowledged, p.held_oldest_ms, None) for p in lost)


def evidence_of(
    context: Context, lost: Sequence[Lost], source: RawCluster | None, *, fenced: bool
) -> LossEvidence:
    """Return the loss statement.

    :param source: None if it does not answer
    :param fenced: no client can write to the source, so ends do not move
    """
    held, missing = held_of(lost), sum(p.missing for p in lost)
    known, waiting = total(p.records for p in lost), sum(p.unreplicated for p in lost)
    gone = missing + sum(p.dropped for p in lost)
    silent = silent_risk(context, known, held, gone) if source is None else None
    records = None if known is None else known + held.records + waiting
    times = (t for t in (*(p.oldest_ms for p in lost), held.oldest_ms) if t is not None)
    seconds = oldest_of([age_of(t, context.wall()) for t in times])
    if silent is not None:
        seconds = silent.seconds
    elif records is None or (held.acknowledged and held.oldest_ms is None):
        seconds = None
    return {
        "drained": silent is None and is_drained(lost),
        "exact": fenced
        and silent is None
        and not held.records + missing + waiting
        and all(p.exact for p in lost),
        "records": None if records is None else records + missing,
        "held_back": held.records,
        "held_acknowledged": held.acknowledged,
        "seconds": seconds,
        "partitions": [p._asdict() for p in lost],
        "statement": _statement(lost, records, seconds, silent, fenced=fenced),
    }


def _statement(
    lost: Sequence[Lost], records: int | None, seconds: float | None, silent: Risk | None, *, fenced: bool
) -> str:
    removed = _removed(lost)
    if silent is None and is_drained(lost):
        some = counted(len(lost), "partition")
        if removed:
            return f"{removed}; every other record up to the ends of {some} is copied"
        if fenced:
            return f"nothing is lost: every record up to the fenced ends of {some} is copied"
        return "nothing is lost so far, but the source is not fenced: what it takes from now on stays there"
    before = f"{removed}; " if removed else ""
    places = _places([p for p in lost if p.records != 0 or not p.exact or p.held_back or p.unreplicated])
    count = "an unknown number of records" if records is None else counted(records, "record")
    held = held_of(lost)
    if held_by := held_text(held.records, held.acknowledged):
        count = f"{count if records is None else 'up to ' + count}, among them {held_by}"
    span = "" if seconds is None else f"at most {seconds:.1f} s"
    if silent is not None:
        since = silent.counted_seconds
        when = "never counted" if since is None else f"last counted {since:,.0f} s ago"
        bound = "; ".join(filter(None, (when, ": ".join(filter(None, (span, silent.basis))))))
        known = f"known lost: {count}; " if records else ""
        return f"{before}{known}unknown: anything the primary accepted at or after {places} ({bound})"
    hanging = sum(p.open_transaction for p in lost)
    opened = f"; {counted(hanging, 'partition', 'has')} an open transaction" if hanging else ""
    waiting = counted(sum(p.unreplicated for p in lost), "record")
    late = f"; {waiting} of them may still be acknowledged" if any(p.unreplicated for p in lost) else ""
    unfenced = "" if fenced else "; the source is not fenced, so there may be more"
    return f"{before}lost: {count}{', ' if span else ''}{span}: {places}{opened}{late}{unfenced}"


def _removed(lost: Sequence[Lost]) -> str:
    missing = {f"{p.topic}-{p.partition}@{p.missing_from}": p.missing for p in lost if p.missing}
    if not missing:
        return ""
    number = counted(sum(missing.values()), "record")
    why = next((p.reason for p in lost if p.missing and p.reason), "")
    reason = f"; how many the source keeps is unknown: {why}" if why else ""
    return f"lost: up to {number} that the standby has removed: {first_of(missing)}{reason}"


def begins_later(where: str, lost: Mapping[str, str]) -> Refused:
    """Return the refusal of a switchover to a standby that has lost the beginning of copies.

    :param lost: topic → the evidence
    """
    give_up = typed(*RunRequest(give_up_history=tuple(sorted(lost))).options())
    evidence = first_of(reason for _, reason in sorted(lost.items()))
    return Refused("standby_begins_later", where=where, evidence=evidence, give_up=give_up)


def _places(missing: Sequence[Lost]) -> str:
    return first_of(
        f"{p.topic}-{p.partition}" + (f" ({p.reason})" if p.lost_from is None else f"@{p.lost_from}")
        for p in missing
    )
