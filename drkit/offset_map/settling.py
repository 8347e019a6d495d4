"""Settle partitions step by step: read the leaders' state, then the map, then the log if still needed.

The steps are generators without I/O: they yield requests and receive responses. `settle` sends these to
brokers, `tests/model` to a model of brokers. All requests go to the target, so a failover on any machine uses
the same code as a restart of the copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import EARLIEST, TopicMetadata, leader_of, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.look import Look, PartitionQuery, look_at_leaders
from drkit.offset_map.scan import scan
from drkit.offsets import PartitionMap, Unavailable
from drkit.offsets.resolution import Foreign, LogBatch, NeedLog, Resolution
from drkit.offsets.resolve import resolve

_ROUNDS: Final = 4
_SCANS: Final = 12
"""A log is scanned for the records after the map's last one, and before that to verify that last one."""
_LAST_OFFSETS: Final = 64
"""Offsets at the end of a log without a map that are searched for records of this flow."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition to settle."""

    target: TopicPartition
    state: PartitionMap
    own_ids: frozenset[int]
    """Live producer ids of the flow."""
    bulk_id: int = -1
    """Producer id of the bucket's transactions: its markers must be written before the end counts."""
    seen_epoch: int = -1
    """Newest leader epoch of the partition that the caller knows."""
    bulk_ids: frozenset[int] = frozenset()
    """All producer ids that the flow's transactions ever had; empty if unknown."""
    began_at: int | None = None
    """Source offset at which the flow began to copy after a turn; earlier records may be of any producer."""
    emptied: int = 0
    """Target offset before which the copy was emptied. Records before it may reappear after a broker crash;
    they do not belong to the copy."""
    tail_end: int = 0
    """Target offset after a kept tail of any producer, whose records are in no map."""
    until: int | None = None
    """Target end at the promotion: later records are of producers, not copies."""
    doubt: Callable[[], Unavailable | None] = lambda: None
    """Returns why its map, once it is read, is not reliable: then its log does not matter."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The position of a partition, or the Kafka error code that prevents it."""

    answer: Resolution | Unavailable | None
    error: int
    look: Look
    unread: bool = False
    """There is no answer only because too much of the log would have to be read."""

    @property
    def resolution(self) -> Resolution | None:
        """The answer, if there is one."""
        return self.answer if isinstance(self.answer, Resolution) else None


class LookAt(NamedTuple):
    """Read the state of these partitions from their leaders; the response is their looks."""

    wanted: Sequence[Wanted]


class ReadMap(NamedTuple):
    """Read the map to its end into the states; the response is None."""


class FirstOffset(NamedTuple):
    """Read the target's log start offset; the response is 0 if it is unknown."""


class Scan(NamedTuple):
    """Read batch headers of the target's log; the response is these headers."""

    start: int
    end: int
    first_visible: bool = False
    """Stop after the first batch with records that a consumer sees."""


Looks = dict[TopicPartition, Look]


def looking(partitions: Sequence[Wanted]) -> Generator[LookAt | ReadMap, Any, Looks]:
    """Read the logs first and the map second, until both are consistent.

    The order matters while another process appends (another task by mistake, or the copier while a reader
    translates): a claim is durable before its batch, so a map read after the log knows every batch in it.
    """
    looks: Looks = dict((yield LookAt(partitions)))
    yield ReadMap()
    shorter: set[TopicPartition] = set()
    for _ in range(_ROUNDS):
        # The map confirms more than the log held: the log grew meanwhile, or the target lost its tail. A log
        # that is still shorter when read after the map proves the loss.
        behind = _behind(partitions, looks, shorter)
        if not behind:
            break
        confirmed = {p.target: confirmed_end(p.state) for p in behind}
        later_looks: Mapping[TopicPartition, Look] = yield LookAt(behind)
        looks.update(later_looks)
        shorter |= {tp for tp, look in later_looks.items() if 0 <= look.end < confirmed[tp]}
        yield ReadMap()
    for p in _behind(partitions, looks, shorter):
        looks[p.target] = Look(codes.REQUEST_TIMED_OUT)  # others append continuously: retry later
    return looks


def settling(
    partition: Wanted, look: Look, scan_up_to: int | None = None
) -> Generator[FirstOffset | Scan, Any, Settled]:
    """Settle a partition whose log was looked at before its map was read.

    :param scan_up_to: maximum number of target offsets to read from the log where numbers do not settle the
        map, or None for no limit
    """
    if look.error:
        return Settled(None, look.error, look)
    if is_stale(look, partition.state) or -1 < look.leader_epoch < partition.seen_epoch:
        return Settled(None, codes.LEADER_NOT_AVAILABLE, look)
    if reason := _reason_of_loss(look, partition):
        return Settled(Unavailable(f"{partition.target}: {reason}"), 0, look)
    look = _clipped(look, partition)
    log: list[LogBatch] | None = None
    log_from = 0
    for _ in range(_SCANS):
        # Only the copier writes repairs to the map: work on a copy of its state.
        state = replace(partition.state, segments=partition.state.segments.copy())
        log_look = look.log_look(state, partition.own_ids, partition.bulk_ids, partition.began_at)
        answer = resolve(state, log_look, log, log_from)
        if isinstance(answer, Resolution) and answer.first_foreign:
            yield from _add_first_records(answer, look.end)
        if not isinstance(answer, NeedLog):
            return Settled(_without_tail(answer, partition), 0, look)
        if look.start < 0:
            look = replace(look, start=max(partition.emptied, (yield FirstOffset())))
            continue
        if scan_up_to is not None and look.end - answer.start > scan_up_to:
            reason = f"the target's log from offset {answer.start} on must be read to settle the offset map"
            return Settled(Unavailable(reason), 0, look, unread=True)
        log_from = answer.start
        log = yield Scan(log_from, look.end)
        if not log or log[0].base > log_from:  # retention has removed records since the log start was read
            look = replace(look, start=max(partition.emptied, (yield FirstOffset())))
    return Settled(Unavailable("the target's log does not settle the offset map"), 0, look)


def _add_first_records(resolution: Resolution, end: int) -> Generator[Scan, Any, None]:
    """Add the records of a log without a map; aborted ones of this flow at its beginning do not count."""
    resolution.foreign = _visible((yield Scan(0, end, first_visible=True)))
    resolution.first_foreign = bool(resolution.foreign)
    if resolution.foreign:
        resolution.unmapped = resolution.foreign + _visible((yield Scan(max(0, end - _LAST_OFFSETS), end)))


def _visible(batches: Iterable[LogBatch]) -> list[Foreign]:
    return [
        Foreign(b.base, b.records, b.producer_id, b.transactional, b.producer_epoch)
        for b in batches
        if not (b.control or b.aborted)
    ]


def _reason_of_loss(look: Look, wanted: Wanted) -> str:
    if look.end < wanted.emptied:
        return f"it ends at {look.end}, before {wanted.emptied}, up to where it was emptied: its end is lost"
    if look.end < wanted.tail_end:
        return f"it ends at {look.end}, before {wanted.tail_end}: of the tail that it has kept, some is lost"
    return ""


def _without_tail(answer: Resolution | Unavailable, partition: Wanted) -> Resolution | Unavailable:
    """Drop the records of a kept tail from the foreign ones, and those of others from the unmapped ones."""
    if isinstance(answer, Resolution):
        answer.foreign = [f for f in answer.foreign if f.base >= partition.tail_end]
        # A transaction of bulk mode contains its map records; a live batch may be of an ended history.
        unmapped = answer.unmapped or [f for f in answer.foreign if f.transactional]
        own = partition.own_ids | partition.bulk_ids
        answer.unmapped = [f for f in unmapped if f.producer_id in own]
    return answer


def _clipped(look: Look, partition: Wanted) -> Look:
    """Limit a look to the offsets that can belong to the copy."""
    if 0 <= look.start < partition.emptied:
        look = replace(look, start=partition.emptied)
    if partition.until is not None and look.end > partition.until:
        look = replace(look, end=partition.until, last=None, producers={})
    return look


def grown(look: Look, state: PartitionMap, end: int) -> Look:
    """Return the look at a log that the map confirms further: it grew, or the target lost its tail.

    :param end: the log's end, asked after the map was read
    """
    confirmed = min(end, confirmed_end(state))
    return replace(look, end=confirmed, last=None, producers={}) if confirmed > look.end else look


def confirmed_end(state: PartitionMap) -> int:
    """Return the target offset up to which the map confirms the log."""
    return state.tail.downstream if state.tail else 0


def is_stale(look: Look, state: PartitionMap) -> bool:
    """Return whether a former leader answered: the map has a later leader epoch."""
    return state.tail is not None and -1 < look.leader_epoch < state.tail.target_epoch


def _behind(partitions: Sequence[Wanted], looks: Looks, shorter: set[TopicPartition]) -> list[Wanted]:
    return [
        p for p in partitions if p.target not in shorter and confirmed_end(p.state) > looks[p.target].end >= 0
    ]


async def settle(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    partitions: Iterable[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Settled]:
    """Settle many partitions: three requests per broker, and a scan where numbers do not suffice.

    :param read_map: updates the states in `partitions` to the end of the map topic
    """
    partitions = list(partitions)
    looks = await _looks(cluster, topics, partitions, read_map)
    return {p.target: await settle_one(cluster, topics, p, looks[p.target]) for p in partitions}


async def _looks(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    partitions: list[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Look]:
    steps = looking(partitions)
    answer: dict[TopicPartition, Look] | None = None
    while True:
        try:
            match steps.send(answer):
                case LookAt(queried):
                    queries = [PartitionQuery(w.target, w.bulk_id) for w in queried]
                    answer = await look_at_leaders(cluster, topics, queries)
                case ReadMap():
                    await read_map()
                    answer = None
        except StopIteration as end:
            looks: dict[TopicPartition, Look] = end.value
            return looks


async def settle_one(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    partition: Wanted,
    look: Look,
    scan_up_to: int | None = None,
) -> Settled:
    """Settle a partition whose log was looked at before its map was read.

    :param scan_up_to: maximum number of target offsets to read from the log where numbers do not settle the
        map, or None for no limit
    """
    if (doubt := partition.doubt()) is not None:
        return Settled(doubt, 0, look)
    steps = settling(partition, look, scan_up_to)
    answer: list[LogBatch] | int | None = None
    while True:
        try:
            question = steps.send(answer)
        except StopIteration as end:
            settled: Settled = end.value
            return settled
        node = leader_of(topics, partition.target)
        try:
            target = partition.target
            if isinstance(question, Scan):
                span, first = (question.start, question.end), question.first_visible
                topic_id = topics[target.topic].topic_id
                answer = await scan(cluster, node, target, topic_id, *span, first_visible=first)
            else:
                start = (await list_offsets(cluster, node, {target: EARLIEST}, committed=False))[target]
                answer = 0 if start.error else max(0, start.offset)
        except RawError:
            return Settled(None, codes.REQUEST_TIMED_OUT, look)
