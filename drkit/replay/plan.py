"""Plans a replay: per partition the records to send, and the reasons why the others are not sent."""

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

    Only that return knows the options with which it was begun, so it supplies the command.
    """

    topic: str
    """Its name on the old primary."""

    def of(self, tail: Tail, same: str = "") -> Self:
        """Note the topic, and the value of ``--same`` that the command needs."""
        self.topic, self._same = tail.source.topic, same
        return self

    def way_out(self, command: Callable[[str, str], str]) -> str:
        """Return the hint, with the command that `command` builds from a topic and a value of ``--same``."""
        return filled(ERRORS[self.code].hint, {"command": command(self.topic, self._same)})


def covers_part(progress: ReplayProgress, tail: Tail) -> bool:
    """Return whether a run has accounted for some offsets of a tail."""
    is_same = (progress.source_id, progress.partition) == (tail.topic_id, tail.source.partition)
    return is_same and progress.first < tail.end and tail.first < progress.next


def kept_before(tail: Tail, seen: Iterable[ReplayProgress]) -> KeptBefore:
    """Return what returns have appended of a tail to keep it, by the progress of all runs there."""
    runs = [p for p in seen if p.ids and covers_part(p, tail)]
    spans = tuple(sorted({(p.first, p.next) for p in runs}))
    return KeptBefore(spans, frozenset(i for p in runs for i in p.ids or ()))


def refuse_repeats(tail: Tail, flags: bytes, where: str, same: Same | None) -> None:
    """Refuse to append a tail if the new primary has some of its records.

    :param flags: of each record
    :param same: the meaning of clients' records with equal content, or None if it was not stated
    :raises Refused: it has some
    """
    replayed = sum(bool(f & TailFlag.REPLAYED) for f in flags)
    alike = sum(bool(f & TailFlag.ALIKE) for f in flags) if same is not Same.NONE else 0
    if replayed:
        evidence = f"{replayed:,} of {len(flags):,} records, by their header or by what returns noted"
        raise NotKept("keep_replayed_before", where=where, evidence=evidence, command=_REBUILD).of(tail)
    if alike:
        evidence = f"{alike:,} of {len(flags):,} records; key, value and headers are equal"
        again = f"{_REBUILD} --same {Same.CONTENT}"
        refusal = NotKept("keep_content_known", where=where, evidence=evidence, command=again)
        raise refusal.of(tail, Same.CONTENT)


def refuse_other_way(tail: Tail, seen: Iterable[ReplayProgress], where: str) -> None:
    """Refuse a tail that is being appended, or was appended, in the other way or by another run.

    A kept tail has no header: while it is appended, no comparison finds its other records.

    :param seen: the progress of all runs in the partition of the new primary
    :raises Refused: it is, or was
    """
    origin = tail.origin
    for run in seen:
        is_same_run, is_kept = run.run_id == origin.run_id, run.ids is not None
        overlaps = run.source_id == tail.topic_id and run.first < tail.end and tail.first < run.end
        if is_kept and run.is_open and overlaps and not (is_same_run and origin.is_kept):
            evidence = f"run {run.run_id} has appended {run.appended:,} of {run.records:,} records"
            raise Refused("keep_under_way", where=where, evidence=evidence)
        if not origin.is_kept:
            continue
        if is_same_run and not is_kept and not run.is_done:
            evidence = f"drkit replay has begun with export {run.run_id}"
            raise NotKept("keep_begun_otherwise", where=where, evidence=evidence, command=_REBUILD).of(tail)
        appended = overlaps and (run.appended or (is_same_run and run.rolled_back_ms is None))
        if appended and not (is_same_run and is_kept and run.rolled_back_ms is None):
            evidence = f"{run.appended:,} records with export {run.run_id}"
            raise NotKept("keep_replayed_before", where=where, evidence=evidence, command=_REBUILD).of(tail)


class PartitionPlan(NamedTuple):
    """The plan of a replay for the tail of a partition."""

    tail: Tail
    to: Destination
    compared_to: int
    """Offset on the new primary up to which the tail was compared."""
    flags: bytes
    """Of each record of the tail."""
    counts: TailCounts
    seen: Mapping[bytes, ReplayProgress]
    """The progress of runs in the partition when this was planned."""
    was_cleaned: bool = False
    """True if compaction has removed some of what clients wrote there since the failover."""

    @property
    def progress(self) -> ReplayProgress | None:
        """The progress of this run, or None before it begins."""
        return begun_by(self.tail, self.to, self.seen)

    @property
    def rolled_back(self) -> ReplayProgress | None:
        """The progress of a rolled back return with this export, or None if it had appended nothing."""
        found = self.seen.get(progress_key(self.tail.origin.run_id, self.to.at))
        return found if found is not None and found.rolled_back_ms is not None and found.appended else None

    @property
    def is_done(self) -> bool:
        """True if this run has nothing left to do."""
        return self.progress is not None and self.progress.is_done

    def outlived(self, now_ms: int) -> bool:
        """Return whether its oldest record is older than the topic keeps records."""
        oldest, retention = self.counts.oldest_ms, self.to.retention_ms
        return oldest is not None and retention is not None and 0 <= oldest < now_ms - retention

    def of(self, fate: TailFate, same: Same) -> int:
        """Return the number of records with this fate, done or not."""
        return self.counts.of(fate, same=same, compacted=self.to.compacted)


class ReplayPlan(NamedTuple):
    """The plan of a replay."""

    export: Export
    same: Same | None
    """None if it was neither requested nor decided by an earlier attempt."""
    to_quarantine: bool
    partitions: tuple[PartitionPlan, ...]
    elsewhere: tuple[str, ...] = ()
    """Topics of clients into which some records were replayed that go in quarantine now."""

    @property
    def alike(self) -> int:
        """Records of which clients have written one with equal content, in partitions that are not done."""
        return sum(p.counts.alike for p in self.partitions if not p.is_done)

    @property
    def is_done(self) -> bool:
        """True if nothing is left to do."""
        return all(p.is_done for p in self.partitions)

    def cautions(self, now_ms: int) -> list[str]:
        """Return warnings to show before records are appended: lost times, ages that are not kept."""
        pending = [p for p in self.partitions if not p.is_done]
        own = sorted({p.to.at.topic for p in pending if p.to.own_times})
        times = f"records get the time of their arrival (LogAppendTime): {first_of(own)}"
        cleaned = sorted({p.to.at.topic for p in pending if p.was_cleaned})
        deleted = (
            "compaction has removed records that clients wrote since the failover. If delete.retention.ms"
            " was shorter meanwhile, keys that they deleted come back; quarantine keeps them:"
            f" {first_of(cleaned)}"
        )
        again = (
            "some of these records were replayed before, for clients to read; they go in quarantine, too:"
            f" {first_of(self.elsewhere)}"
        )
        cautions = ((own, times), (cleaned, deleted), (pending and self.elsewhere, again))
        return [text for applies, text in cautions if applies] + self.expiring(now_ms)

    def expiring(self, now_ms: int) -> list[str]:
        """Return the topics that may lose what is appended soon after that, and why."""
        oldest_of: dict[str, int] = {}
        for p in self.partitions:
            if p.outlived(now_ms) and not p.is_done:
                oldest = p.counts.oldest_ms or 0
                oldest_of[p.to.at.topic] = min(oldest, oldest_of.get(p.to.at.topic, oldest))
        ages = {p.to.at.topic: p.to.retention_ms or 0 for p in self.partitions}
        return [
            f"{topic} keeps records for {ages[topic]:,} ms by retention.ms, and the oldest of these is of"
            f" {utc(oldest)}: Kafka may remove them again; quarantine keeps them"
            for topic, oldest in sorted(oldest_of.items())
        ]

    def decided(self) -> Same:
        """Return the meaning of equal records. Raises Refused if there are some and it is not stated."""
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
    """Compare a tail, or continue with an earlier decision about it.

    :raises Refused: it may not be replayed, or a file of the export was altered
    :raises DrkitError: the new primary does not answer
    """
    seen = book.of_partition(to.at)
    refuse_other_way(tail, seen.values(), f"{to.at} on {side.alias}")
    begun, whole = begun_by(tail, to, seen), True
    if begun is not None and begun.is_done:
        return PartitionPlan(tail, to, begun.compared_to, b"", TailCounts(), seen)
    if begun is not None:
        try:
            compared_to, flags = begun.compared_to, book.flags(begun)
        except Malformed as error:
            raise log.damaged(str(error)) from error
    elif to.cut is None:
        compared_to, flags = 0, bytes(tail.records)
    else:
        compared_to = await side.decided_end(to.at, to.topic_id)
        span = (to.cut, max(to.cut, compared_to))
        only_own = same is Same.NONE and not to.compacted
        flags, whole = await _compared(side, tail, to, span, seen, only_own=only_own)
        if tail.origin.is_kept:
            refuse_repeats(tail, flags, f"{to.at} on {side.alias}", same)
    others = (p for p in seen.values() if p.run_id != tail.origin.run_id and p.topic_id == to.topic_id)
    if to.cut is None and any(covers_part(p, tail) for p in others):  # another export's quarantine
        end = await side.decided_end(to.at, to.topic_id)
        present, _ = await _compared(side, tail, to, (0, end), seen, only_own=True)
        flags = bytes(
            decided | flag & TailFlag.REPLAYED for decided, flag in zip(flags, present, strict=True)
        )
    records = _fitting(tail, to, flags, same or Same.CONTENT, side.alias)
    counts, cleaned = counted_tail(records, flags, commits), to.compacted and not whole
    return PartitionPlan(tail, to, compared_to, flags, counts, seen, was_cleaned=cleaned)


def begun_by(tail: Tail, to: Destination, seen: Mapping[bytes, ReplayProgress]) -> ReplayProgress | None:
    """Return the progress of a tail's run in a partition, or None without one, or if it was rolled back.

    Records in a quarantine that was deleted since do not count.
    """
    progress = seen.get(progress_key(tail.origin.run_id, to.at))
    if progress is None or progress.rolled_back_ms is not None:
        return None
    return None if to.cut is None and progress.topic_id != to.topic_id else progress


async def _compared(
    side: ActiveSide, tail: Tail, to: Destination, span: tuple[int, int],
    seen: Mapping[bytes, ReplayProgress], *, only_own: bool,
) -> tuple[bytes, bool]:  # fmt: skip
    """Return the flags of a tail against a range of the new primary, and whether this has every offset.

    :param seen: the progress of runs in the partition
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
    """Yield the records of a tail. Raises Refused if one to be sent is too large, too old or too late."""
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
