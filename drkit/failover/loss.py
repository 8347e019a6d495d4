"""What is lost, by partition: exact where the source can be asked, else from which offset on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from drkit.failover.context import Context
from drkit.failover.evidence import LossEvidence
from drkit.failover.gap import Counted, count_gaps
from drkit.failover.risk import Risk
from drkit.failover.standing import Standing, written_ends
from drkit.flow_state.records import SourceSeenRecord
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.offsets.translation import Place
from drkit.replicate.lag_source import Ends, Gap
from drkit.replicate.status_facts import ends_from

_SHOWN: Final = 3


class Lost(NamedTuple):
    """One partition of the source."""

    topic: str
    partition: int
    lost_from: int | None = None
    """Its first offset that is not on the target: everything from there on is not. None: not known."""
    end: int | None = None
    """Its end; of a silent source the last that was noted. None: nobody ever noted one."""
    records: int | None = None
    """Between the two; of a silent source there may be more behind."""
    bytes: int | None = None
    oldest_ms: int | None = None
    open_transaction: bool = False
    """Records behind the end belong to a transaction that is still open."""
    exact: bool = False
    reason: str = ""


def lost_partitions(context: Context, places: Standing, source: RawCluster | None) -> list[Lost]:
    """What each partition of the scope loses.

    :raises RawError: the source stopped answering
    """
    if source is None:
        seen = context.state.get(SourceSeenRecord)
        noted = ends_from(seen) if seen else {}
        return [_of_silent(at, p, noted.get(at)) for at, p in sorted(places.items())]
    written: dict[TopicPartition, int] = context.run(written_ends, source, places)
    gaps = [Gap(at, *span) for at, p in places.items() if (span := _span(p)) is not None]
    counted: dict[TopicPartition, Counted] = {}
    if gaps:
        counted = context.run(count_gaps, source, gaps, context.known.producers.left_out)
    return [_of_answering(at, p, counted.get(at), written.get(at)) for at, p in sorted(places.items())]


def _span(place: Place | Unavailable) -> tuple[int, int] | None:
    """Source offsets that are not on the target; None when nothing is missing, or nobody knows."""
    if isinstance(place, Unavailable) or place.source_end is None:
        return None
    start = _from(place)
    return (start, place.source_end) if start is not None and start < place.source_end else None


def _from(place: Place) -> int | None:
    """The first source offset that is missing; of a partition that was never copied its start."""
    if place.frontier is None:
        return place.source_start
    return max(place.frontier, place.source_start or 0)


def _of_silent(at: TopicPartition, place: Place | Unavailable, ends: Ends | None) -> Lost:
    if isinstance(place, Unavailable):
        return Lost(*at, reason=place.reason)
    first = ends.start if ends is not None else 0
    start = first if place.frontier is None else place.frontier
    if ends is None:
        return Lost(*at, start)
    return Lost(*at, start, ends.end, max(0, ends.end - start))


def _of_answering(
    at: TopicPartition, place: Place | Unavailable, counted: Counted | None, written: int | None
) -> Lost:
    if isinstance(place, Unavailable):
        return Lost(*at, reason=place.reason)
    if place.source_end is None:
        return Lost(*at, reason="the source does not tell its end")
    end, start = place.source_end, _from(place)
    is_open = written is None or written > end
    if counted is None:
        return Lost(*at, start, end, 0, 0, None, is_open, exact=True)
    whole = counted.next_offset >= end
    return Lost(*at, start, end, counted.records, counted.bytes, counted.oldest_ms, is_open, exact=whole)


def is_drained(lost: Sequence[Lost]) -> bool:
    """Nothing is missing, and no open transaction can move an end."""
    return all(p.exact and p.records == 0 and not p.open_transaction for p in lost)


def known_records(lost: Sequence[Lost]) -> int | None:
    """How many records are known to be missing; None where nobody knows of some partition."""
    known = [p.records for p in lost if p.records is not None]
    return sum(known) if len(known) == len(lost) else None


def evidence_of(context: Context, lost: Sequence[Lost], silent: Risk | None, *, fenced: bool) -> LossEvidence:
    """The loss statement.

    :param silent: the bound of a source that does not answer; None when it does
    :param fenced: nobody writes there any more, so ends stand still
    """
    total = known_records(lost)
    oldest = [p.oldest_ms for p in lost if p.oldest_ms is not None]
    seconds: float | None = max(0, context.wall() - min(oldest)) / 1000 if oldest else 0.0
    if silent is not None:
        seconds = silent.seconds
    elif total is None:
        seconds = None
    return {
        "drained": silent is None and is_drained(lost),
        "exact": fenced and silent is None and all(p.exact for p in lost),
        "records": total,
        "seconds": seconds,
        "partitions": [p._asdict() for p in lost],
        "statement": _statement(lost, total, seconds, silent, fenced=fenced),
    }


def _statement(
    lost: Sequence[Lost], total: int | None, seconds: float | None, silent: Risk | None, *, fenced: bool
) -> str:
    if silent is None and is_drained(lost):
        if fenced:
            return f"nothing is lost: every record up to the fenced ends of {len(lost)} partitions is copied"
        return "nothing is lost so far, but the source is not fenced: what it takes from now on stays there"
    places = _places([p for p in lost if p.records != 0 or not p.exact])
    count = "an unknown number of records" if total is None else f"{total:,} records"
    span = "" if seconds is None else f", at the most {seconds:.1f} s"
    if silent is not None:
        return (
            f"lost is everything on the source from these offsets on: {places}; of that {count} were seen"
            f" there{span} ({silent.basis})"
        )
    hanging = sum(p.open_transaction for p in lost)
    opened = f"; {hanging} partitions have an open transaction" if hanging else ""
    unfenced = "" if fenced else "; the source is not fenced, so there may be more"
    return f"lost are {count}{span}: {places}{opened}{unfenced}"


def _places(missing: Sequence[Lost]) -> str:
    shown = ", ".join(f"{p.topic}-{p.partition} from {p.lost_from}" for p in missing[:_SHOWN])
    return shown + (f" and {len(missing) - _SHOWN} more partitions" if len(missing) > _SHOWN else "")


def frontiers_of(places: Mapping[TopicPartition, Place | Unavailable]) -> dict[str, Any]:
    """First missing source offsets, for the journal."""
    return {str(at): p.frontier if isinstance(p, Place) else None for at, p in sorted(places.items())}
