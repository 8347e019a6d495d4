"""Settle partitions step by step: the leaders first, the map second, then the log if numbers do not suffice.

The steps are generators without input or output: they yield questions and receive answers. `settle` asks
brokers, `tests/model` a model of them. All questions go to the target, so a failover on any machine uses the
same code as a restart of the copy.
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
"""A log is read once for what follows the map, and before that for its last record where that is in doubt."""


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
    """Leader epoch under which the caller has seen the partition before."""
    bulk_ids: frozenset[int] = frozenset()
    """All that the flow's transactions ever had; empty: unknown."""
    began_at: int | None = None
    """Source offset at which the flow began to copy after a turn: earlier records have any writer."""
    emptied: int = 0
    """Target offset before which the copy was emptied. Brokers that are killed may bring back what was there;
    it is no part of the copy."""
    tail_end: int = 0
    """Target offset after a tail among the copies, of any producer: no map knows its records."""
    until: int | None = None
    """Target offset at which producers began to write after the promotion: later records are not copies."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Where a partition is, or the Kafka error code that prevents the answer."""

    answer: Resolution | Unavailable | None
    error: int
    look: Look
    unread: bool = False
    """There is no answer only because too much of the log had to be read for one."""

    @property
    def resolution(self) -> Resolution | None:
        """The answer, if there is one."""
        return self.answer if isinstance(self.answer, Resolution) else None


class LookAt(NamedTuple):
    """Ask the leaders of these partitions; answered with their looks."""

    wanted: Sequence[Wanted]


class ReadMap(NamedTuple):
    """Read the map to its end into the states; answered with nothing."""


class FirstOffset(NamedTuple):
    """Ask for the first offset left in the target's log; answered with it, 0 where it is unknown."""


class Scan(NamedTuple):
    """Read the headers of the target's log; answered with them."""

    start: int
    end: int
    first_visible: bool = False
    """Stop after the first batch with records that a consumer sees."""


Looks = dict[TopicPartition, Look]


def looking(wanted: Sequence[Wanted]) -> Generator[LookAt | ReadMap, Any, Looks]:
    """Look at the logs first and read the map second, until both are of one time.

    The order matters while another process appends (another task by mistake, or the copier while a reader
    translates): a claim is durable before its batch, so a map read after the log knows every batch in it.
    """
    looks: Looks = dict((yield LookAt(wanted)))
    yield ReadMap()
    shorter: set[TopicPartition] = set()
    for _ in range(_ROUNDS):
        # The map confirms more than the log held: it grew between, or the target lost its tail. Only a look
        # after the map was read shows which: one that is still too short proves the loss.
        behind = _behind(wanted, looks, shorter)
        if not behind:
            break
        confirmed = {w.target: confirmed_end(w.state) for w in behind}
        again: Mapping[TopicPartition, Look] = yield LookAt(behind)
        looks.update(again)
        shorter |= {tp for tp, look in again.items() if 0 <= look.end < confirmed[tp]}
        yield ReadMap()
    for w in _behind(wanted, looks, shorter):
        looks[w.target] = Look(codes.REQUEST_TIMED_OUT)  # others write all the time: ask again later
    return looks


def settling(
    wanted: Wanted, look: Look, scan_up_to: int | None = None
) -> Generator[FirstOffset | Scan, Any, Settled]:
    """Settle a partition whose log was looked at before its map was read.

    :param scan_up_to: maximum number of target offsets to read from the log where numbers do not settle the
        map, or None for no limit
    """
    if look.error:
        return Settled(None, look.error, look)
    if is_stale(look, wanted.state) or _is_older(look, wanted):
        return Settled(None, codes.LEADER_NOT_AVAILABLE, look)
    if why := _why_lost(look, wanted):
        return Settled(Unavailable(f"{wanted.target}: {why}"), 0, look)
    look = _clipped(look, wanted)
    log: list[LogBatch] | None = None
    log_from = 0
    for _ in range(_SCANS):
        # What a look finds is written down by the copier alone: the next look starts from the map again.
        state = replace(wanted.state, segments=wanted.state.segments.copy())
        answer = resolve(
            state, look.log_look(state, wanted.own_ids, wanted.bulk_ids, wanted.began_at), log, log_from
        )
        if isinstance(answer, Resolution) and answer.first_foreign:
            # Aborted batches of this flow at the beginning are not foreign records.
            first: list[LogBatch] = yield Scan(0, look.end, first_visible=True)
            seen = [b for b in first if not (b.control or b.aborted)]
            answer.first_foreign = bool(seen)
            answer.foreign = [Foreign(b.base, b.records, b.producer_id, b.transactional) for b in seen]
        if not isinstance(answer, NeedLog):
            return Settled(_without_tail(answer, wanted), 0, look)
        if look.start < 0:
            look = replace(look, start=max(wanted.emptied, (yield FirstOffset())))
            continue
        if scan_up_to is not None and look.end - answer.start > scan_up_to:
            why = f"the target's log from offset {answer.start} on must be read to settle the offset map"
            return Settled(Unavailable(why), 0, look, unread=True)
        log_from = answer.start
        log = yield Scan(log_from, look.end)
        if not log or log[0].base > log_from:  # retention has removed what was there when it was asked
            look = replace(look, start=max(wanted.emptied, (yield FirstOffset())))
    return Settled(Unavailable("the target's log does not settle the offset map"), 0, look)


def _why_lost(look: Look, wanted: Wanted) -> str:
    if look.end < wanted.emptied:
        return f"it ends at {look.end}, before {wanted.emptied}, up to where it was emptied: its end is lost"
    if look.end < wanted.tail_end:
        return f"it ends at {look.end}, before {wanted.tail_end}: of the tail that it has kept, some is lost"
    return ""


def _without_tail(answer: Resolution | Unavailable, wanted: Wanted) -> Resolution | Unavailable:
    """An answer that takes no record of a tail for one of a stranger."""
    if isinstance(answer, Resolution):
        answer.foreign = [f for f in answer.foreign if f.base >= wanted.tail_end]
    return answer


def _clipped(look: Look, wanted: Wanted) -> Look:
    """What of the log can belong to the copy."""
    if 0 <= look.start < wanted.emptied:
        look = replace(look, start=wanted.emptied)
    if wanted.until is not None and look.end > wanted.until:
        look = replace(look, end=wanted.until, last=None, producers={})
    return look


def grown(look: Look, state: PartitionMap, end: int) -> Look:
    """A look at a log of which the map vouches for more: it grew meanwhile, or the target lost its tail.

    :param end: the log's end, asked after the map was read
    """
    known = min(end, confirmed_end(state))
    return replace(look, end=known, last=None, producers={}) if known > look.end else look


def confirmed_end(state: PartitionMap) -> int:
    """The target offset up to which the map vouches for the log."""
    return state.tail.downstream if state.tail else 0


def is_stale(look: Look, state: PartitionMap) -> bool:
    """Whether a former leader answered: the map has seen a later leader's log."""
    return state.tail is not None and -1 < look.leader_epoch < state.tail.target_epoch


def _is_older(look: Look, wanted: Wanted) -> bool:
    """Whether the caller has seen a later leader epoch, which the map does not contain yet."""
    return -1 < look.leader_epoch < wanted.seen_epoch


def _behind(wanted: Sequence[Wanted], looks: Looks, shorter: set[TopicPartition]) -> list[Wanted]:
    return [
        w for w in wanted if w.target not in shorter and confirmed_end(w.state) > looks[w.target].end >= 0
    ]


async def settle(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Iterable[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Settled]:
    """Settle many partitions: three requests per broker, and a scan where numbers do not suffice.

    :param read_map: updates the states in `wanted` to the end of the map topic
    """
    wanted = list(wanted)
    looks = await _looks(cluster, topics, wanted, read_map)
    return {w.target: await settle_one(cluster, topics, w, looks[w.target]) for w in wanted}


async def _looks(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: list[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Look]:
    steps = looking(wanted)
    answer: dict[TopicPartition, Look] | None = None
    while True:
        try:
            match steps.send(answer):
                case LookAt(asked):
                    answer = await look_at_leaders(cluster, topics, map(_asked, asked))
                case ReadMap():
                    await read_map()
                    answer = None
        except StopIteration as end:
            looks: dict[TopicPartition, Look] = end.value
            return looks


async def settle_one(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Wanted,
    look: Look,
    scan_up_to: int | None = None,
) -> Settled:
    """Settle a partition whose log was looked at before its map was read.

    :param scan_up_to: maximum number of target offsets to read from the log where numbers do not settle the
        map, or None for no limit
    """
    steps = settling(wanted, look, scan_up_to)
    answer: list[LogBatch] | int | None = None
    while True:
        try:
            question = steps.send(answer)
        except StopIteration as end:
            settled: Settled = end.value
            return settled
        node = leader_of(topics, wanted.target)
        try:
            if isinstance(question, Scan):
                topic_id = topics[wanted.target.topic].topic_id
                first = question.first_visible
                answer = await scan(
                    cluster, node, wanted.target, topic_id, question.start, question.end, first_visible=first
                )
            else:
                answer = await _log_start(cluster, node, wanted.target)
        except RawError:
            return Settled(None, codes.REQUEST_TIMED_OUT, look)


async def _log_start(cluster: RawCluster, node: int, target: TopicPartition) -> int:
    listed = (await list_offsets(cluster, node, {target: EARLIEST}, committed=False))[target]
    return 0 if listed.error else max(0, listed.offset)


def _asked(w: Wanted) -> PartitionQuery:
    return PartitionQuery(w.target, w.bulk_id)
