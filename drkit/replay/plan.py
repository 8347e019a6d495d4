"""What a replay would do: per partition what is to be sent, and why the rest is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Self

from drkit.catalogue import ERRORS, filled
from drkit.clock import wall_ms
from drkit.counted import first_of, utc
from drkit.errors import Refused
from drkit.flow_state.codec.fields import Malformed
from drkit.model import TopicPartition
from drkit.replay.compare import (
    ContentTally,
    KeptBefore,
    Same,
    TailCounts,
    TailFate,
    TailFlag,
    counted_tail,
    fate_of,
    shares_of,
)
from drkit.replay.destination import Destination
from drkit.replay.log import ReplayLog
from drkit.replay.progress import ReplayBook, ReplayProgress, progress_key
from drkit.replay.side import ActiveSide, Apart
from drkit.replay.tail import Export, Tail, batch_bytes
from drkit.wire import Record

_REBUILD: Final = (
    "drkit reprotect --abort; then a return with --method TOPIC=rebuild --disposition TOPIC=replay"
)
Commits = Mapping[TopicPartition, Mapping[str, int]]
"""Partition of the old primary → group → the offset that it has committed there."""
_NO_COMMITS: Final[Mapping[str, int]] = {}
_NO_TIME: Final = -1
"""A record without a timestamp: every topic takes it."""


class NotKept(Refused):
    """A tail cannot be kept. A return that rebuilds its topic appends what is missing.

    Only that return knows the options with which it was begun, so it says the command.
    """

    topic: str
    """Its name on the old primary."""

    def of(self, tail: Tail, same: str = "") -> Self:
        """Note the topic, and the value of ``--same`` that the command needs."""
        self.topic, self._same = tail.source.topic, same
        return self

    def way_out(self, command: Callable[[str, str], str]) -> str:
        """Return the hint, with the command that `command` makes of a topic and a value of ``--same``."""
        return filled(ERRORS[self.code].hint, {"command": command(self.topic, self._same)})


def kept_before(tail: Tail, seen: Iterable[ReplayProgress]) -> KeptBefore:
    """Return what returns that were to keep a tail have appended of it, by what all runs have done there."""
    mine = [
        p for p in seen
        if p.ids and p.source_id == tail.topic_id and p.first < tail.end and tail.first < p.next
    ]  # fmt: skip
    spans = tuple(sorted({(p.first, p.next) for p in mine}))
    return KeptBefore(spans, frozenset(i for p in mine for i in p.ids or ()))


def refuse_repeats(tail: Tail, flags: bytes, where: str, same: Same | None) -> None:
    """Refuse to append a tail of which the new primary has records.

    :param flags: of each record
    :param same: what records of clients with equal content are; None: nobody has said it
    :raises Refused: it has some
    """
    replayed = sum(bool(f & TailFlag.REPLAYED) for f in flags)
    alike = sum(bool(f & TailFlag.ALIKE) for f in flags) if same is not Same.NONE else 0
    if replayed:
        raise NotKept(
            "keep_replayed_before",
            where=where,
            evidence=f"{replayed:,} of {len(flags):,} records, by their header or by what returns noted",
            command=_REBUILD,
        ).of(tail)
    if alike:
        raise NotKept(
            "keep_content_known",
            where=where,
            evidence=f"{alike:,} of {len(flags):,} records; key, value and headers are equal",
            command=f"{_REBUILD} --same {Same.CONTENT}",
        ).of(tail, Same.CONTENT)


def refuse_other_way(tail: Tail, seen: Iterable[ReplayProgress], where: str) -> None:
    """Refuse a tail that is being appended, or was appended, in the other way or by another run.

    A tail that is kept has no header: while it is appended, no comparison finds the rest of it.

    :param seen: what all runs have done in the partition of the new primary
    :raises Refused: it is, or was
    """
    origin = tail.origin
    for found in seen:
        is_same_run, is_kept = found.run_id == origin.run_id, found.ids is not None
        overlaps = found.source_id == tail.topic_id and found.first < tail.end and tail.first < found.end
        if is_kept and found.is_open and overlaps and not (is_same_run and origin.is_kept):
            evidence = f"run {found.run_id} has appended {found.appended:,} of {found.records:,} records"
            raise Refused("keep_under_way", where=where, evidence=evidence)
        if not origin.is_kept:
            continue
        if is_same_run and not is_kept and not found.is_done:
            raise NotKept(
                "keep_begun_otherwise",
                where=where,
                evidence=f"drkit replay has begun with export {found.run_id}",
                command=_REBUILD,
            ).of(tail)
        appended = overlaps and (found.appended or (is_same_run and found.rolled_back_ms is None))
        if appended and not (is_same_run and is_kept and found.rolled_back_ms is None):
            raise NotKept(
                "keep_replayed_before",
                where=where,
                evidence=f"{found.appended:,} records with export {found.run_id}",
                command=_REBUILD,
            ).of(tail)


class PartitionPlan(NamedTuple):
    """What a replay would do with the tail of a partition."""

    tail: Tail
    to: Destination
    compared_to: int
    """Offset on the new primary up to which the tail was compared."""
    flags: bytes
    """Of each record of the tail."""
    counts: TailCounts
    seen: Mapping[bytes, ReplayProgress]
    """What runs had done in the partition when this was planned."""
    was_cleaned: bool = False
    """Whether compaction has removed some of what clients wrote there since the failover."""

    @property
    def progress(self) -> ReplayProgress | None:
        """What this run had done; None: it has not begun."""
        return begun_by(self.tail, self.to, self.seen)

    @property
    def rolled_back(self) -> ReplayProgress | None:
        """What a return with this export had appended before it was rolled back; None: nothing."""
        found = self.seen.get(progress_key(self.tail.origin.run_id, self.to.at))
        return found if found is not None and found.rolled_back_ms is not None and found.appended else None

    @property
    def is_done(self) -> bool:
        """Whether this run has nothing left to do."""
        return self.progress is not None and self.progress.is_done

    def outlived(self, now_ms: int) -> bool:
        """Whether its oldest record is older than the topic keeps records."""
        oldest, kept = self.counts.oldest_ms, self.to.retention_ms
        return oldest is not None and kept is not None and 0 <= oldest < now_ms - kept

    def of(self, fate: TailFate, same: Same) -> int:
        """The number of records with this fate, whether or not they are done."""
        return self.counts.of(fate, same=same, compacted=self.to.compacted)


class ReplayPlan(NamedTuple):
    """What a replay would do."""

    export: Export
    same: Same | None
    """None: it was neither asked for nor begun."""
    to_quarantine: bool
    partitions: tuple[PartitionPlan, ...]
    elsewhere: tuple[str, ...] = ()
    """Topics into which records were replayed for clients that go in quarantine now."""

    @property
    def alike(self) -> int:
        """Records of which clients have written one with equal content, in partitions that are not done."""
        return sum(p.counts.alike for p in self.partitions if not p.is_done)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return all(p.is_done for p in self.partitions)

    def cautions(self, now_ms: int) -> list[str]:
        """What to know before records are appended: times that are lost, ages that are not kept."""
        left = [p for p in self.partitions if not p.is_done]
        own = sorted({p.to.at.topic for p in left if p.to.own_times})
        times = f"records get the time of their arrival (LogAppendTime): {first_of(own)}"
        cleaned = sorted({p.to.at.topic for p in left if p.was_cleaned})
        deleted = (
            "compaction has removed records that clients wrote since the failover. If delete.retention.ms"
            " was shorter meanwhile, keys that they deleted come back; quarantine keeps them:"
            f" {first_of(cleaned)}"
        )
        again = (
            "some of these records were replayed before, for clients to read; they go in quarantine, too:"
            f" {first_of(self.elsewhere)}"
        )
        found = [times] * bool(own) + [deleted] * bool(cleaned) + [again] * bool(left and self.elsewhere)
        return found + self.expiring(now_ms)

    def expiring(self, now_ms: int) -> list[str]:
        """Topics that may lose what is appended soon after that, and why."""
        found: dict[str, int] = {}
        for p in self.partitions:
            if p.outlived(now_ms) and not p.is_done:
                oldest = p.counts.oldest_ms or 0
                found[p.to.at.topic] = min(oldest, found.get(p.to.at.topic, oldest))
        kept = {p.to.at.topic: p.to.retention_ms or 0 for p in self.partitions}
        return [
            f"{topic} keeps records for {kept[topic]:,} ms by retention.ms, and the oldest of these is of"
            f" {utc(oldest)}: Kafka may remove them again; quarantine keeps them"
            for topic, oldest in sorted(found.items())
        ]

    def decided(self) -> Same:
        """Return what equal records are. Raises Refused if that was not said, and there are some."""
        if self.same is not None:
            return self.same
        if not self.alike:
            return Same.CONTENT
        records = sum(p.counts.records for p in self.partitions)
        evidence = f"{self.alike:,} of {records:,} records; key, value and headers are equal"
        raise Refused("replay_content_known", where=str(self.export.flow), evidence=evidence)


async def plan_partition(
    side: ActiveSide, log: ReplayLog, tail: Tail, to: Destination, book: ReplayBook, same: Same | None,
    commits: Mapping[str, int] = _NO_COMMITS,
) -> PartitionPlan:  # fmt: skip
    """Compare a tail, or continue with what was decided about it.

    :raises Refused: it may not be replayed; a file of the export is not what was written
    :raises DrkitError: the new primary does not answer
    """
    seen = book.of_partition(to.at)
    refuse_other_way(tail, seen.values(), f"{to.at} on {side.alias}")
    begun, whole = begun_by(tail, to, seen), True
    if begun is not None and begun.is_done:
        return PartitionPlan(tail, to, begun.compared_to, b"", TailCounts(), seen)
    if begun is not None:
        compared_to, flags = begun.compared_to, _decided(log, book, begun)
    elif to.cut is None:
        compared_to, flags = 0, bytes(tail.records)
    else:
        compared_to = await side.decided_end(to.at, to.topic_id)
        span = (to.cut, max(to.cut, compared_to))
        only_own = same is Same.NONE and not to.compacted
        flags, whole = await _compared(side, tail, to, span, seen, only_own=only_own)
        if tail.origin.is_kept:
            refuse_repeats(tail, flags, f"{to.at} on {side.alias}", same)
    if to.cut is None and quarantined_before(tail, to, seen.values()):
        end = await side.decided_end(to.at, to.topic_id)
        there, _ = await _compared(side, tail, to, (0, end), seen, only_own=True)
        flags = bytes(decided | flag & TailFlag.REPLAYED for decided, flag in zip(flags, there, strict=True))
    records = _fitting(tail, to, flags, same or Same.CONTENT, side.alias)
    counts, cleaned = counted_tail(records, flags, commits), to.compacted and not whole
    return PartitionPlan(tail, to, compared_to, flags, counts, seen, was_cleaned=cleaned)


def begun_by(tail: Tail, to: Destination, seen: Mapping[bytes, ReplayProgress]) -> ReplayProgress | None:
    """What a tail's run has done in a partition; None: nothing, or it was rolled back.

    What it has put into a quarantine that was deleted since is not there.
    """
    found = seen.get(progress_key(tail.origin.run_id, to.at))
    if found is None or found.rolled_back_ms is not None:
        return None
    return None if to.cut is None and found.topic_id != to.topic_id else found


def quarantined_before(tail: Tail, to: Destination, seen: Iterable[ReplayProgress]) -> bool:
    """Return whether another export has put some of these offsets in quarantine, by what runs have done."""
    return any(
        found.run_id != tail.origin.run_id
        and (found.source_id, found.topic_id) == (tail.topic_id, to.topic_id)
        and found.first < tail.end and tail.first < found.next
        for found in seen
    )  # fmt: skip


def _decided(log: ReplayLog, book: ReplayBook, begun: ReplayProgress) -> bytes:
    try:
        return book.flags(begun)
    except Malformed as error:
        raise log.damaged(str(error)) from error


async def _compared(
    side: ActiveSide, tail: Tail, to: Destination, span: tuple[int, int],
    seen: Mapping[bytes, ReplayProgress], *, only_own: bool,
) -> tuple[bytes, bool]:  # fmt: skip
    """The flags of a tail against a range of the new primary, and whether this has every offset.

    :param seen: what runs had done in the partition
    :param only_own: content and keys of clients do not matter, so the range may begin later
    """
    flags, kept = bytearray(tail.records), kept_before(tail, seen.values())
    if only_own and (start := await side.start(to.at, to.topic_id)) > span[0]:
        span, kept = (start, max(start, span[1])), kept._replace(is_readable=False)
    shares, whole = shares_of(tail.records), True
    for share in range(shares):
        tally = ContentTally(tail.origin, share, shares, kept)
        for record in tail.read():
            tally.expect(record)
        whole = await side.read(to.at, to.topic_id, span, tally.see, apart=Apart(kept.ids, tally.see_kept))
        for number, record in enumerate(tail.read()):
            flags[number] |= tally.flags(record)
    return bytes(flags), whole


def _fitting(tail: Tail, to: Destination, flags: bytes, same: Same, alias: str) -> Iterator[Record]:
    """Yield the records of a tail. Raises Refused for one to be sent that is too large, old or late."""
    now, where = wall_ms(), f"{to.at} on {alias}"
    for number, record in enumerate(tail.read()):
        if fate_of(flags[number], same=same, compacted=to.compacted) is TailFate.SEND:
            size = batch_bytes(tail.origin.stamped(record), to.max_bytes)
            if size > to.max_bytes:
                evidence = f"{size:,} bytes with drkit's header, the limit is {to.max_bytes:,}"
                evidence = f"offset {record.offset}: {evidence}"
                raise Refused("record_too_large", where=where, evidence=evidence)
            in_time = now - to.before_ms <= record.timestamp <= now + to.after_ms
            if not in_time and record.timestamp != _NO_TIME:
                age = now - record.timestamp
                relation = "old" if age >= 0 else "ahead of the clock"
                evidence = f"offset {record.offset}: it is {abs(age):,} ms {relation}"
                raise Refused("record_too_old", where=where, evidence=evidence)
        yield record
