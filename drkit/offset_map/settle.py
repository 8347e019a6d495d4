"""Settles partitions: the leaders first, the map second, and the log where numbers do not suffice.

The target alone answers, so a failover on any machine uses the same code as a restart of the copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from drkit.kafka import codes
from drkit.kafka.partition_offsets import leader_of
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import EARLIEST, TopicMetadata, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.look import Asked, Look, look_at_leaders
from drkit.offset_map.scan import scan
from drkit.offsets import PartitionMap, Unavailable
from drkit.offsets.resolve import LogBatch, NeedLog, Resolution, resolve

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
    """Leader epoch under which whoever asks has seen the partition before."""
    bulk_ids: frozenset[int] = frozenset()
    """All that the flow's transactions ever had; empty: unknown."""


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


async def settle(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Iterable[Wanted],
    read_map: Callable[[], Awaitable[None]],
) -> dict[TopicPartition, Settled]:
    """Settle many partitions: three requests per broker, and a scan where numbers do not suffice.

    The order matters while somebody else appends (another task by mistake, or the copier while a reader
    translates): the end of the log first, then the map. A claim is durable before its batch, so a map
    read after the log knows every batch in it.

    :param read_map: reads the states in `wanted` on to the end of the map topic, in place
    """
    wanted = list(wanted)
    looks = await look_at_leaders(cluster, topics, map(_asked, wanted))
    await read_map()
    shorter: set[TopicPartition] = set()
    for _ in range(_ROUNDS):
        # The map confirms more than the log held: it grew between, or the target lost its tail. Only a look
        # after the map was read tells which: one that is still too short proves the loss.
        behind = _behind(wanted, looks, shorter)
        if not behind:
            break
        confirmed = {w.target: confirmed_end(w.state) for w in behind}
        again = await look_at_leaders(cluster, topics, map(_asked, behind))
        looks.update(again)
        shorter |= {tp for tp, look in again.items() if 0 <= look.end < confirmed[tp]}
        await read_map()
    for w in _behind(wanted, looks, shorter):
        looks[w.target] = Look(codes.REQUEST_TIMED_OUT)  # others write all the time: ask again later
    return {w.target: await settle_one(cluster, topics, w, looks[w.target]) for w in wanted}


async def _log_start(cluster: RawCluster, node: int, target: TopicPartition) -> int:
    """The first offset left in a log; 0 where that is not answered.

    :raises RawError: no answer
    """
    listed = (await list_offsets(cluster, node, {target: EARLIEST}, committed=False))[target]
    return 0 if listed.error else max(0, listed.offset)


def _asked(w: Wanted) -> Asked:
    return Asked(w.target, w.bulk_id)


def _behind(
    wanted: list[Wanted], looks: dict[TopicPartition, Look], shorter: set[TopicPartition]
) -> list[Wanted]:
    return [
        w for w in wanted if w.target not in shorter and confirmed_end(w.state) > looks[w.target].end >= 0
    ]


def confirmed_end(state: PartitionMap) -> int:
    """The target offset up to which the map vouches for the log."""
    return state.tail.downstream if state.tail else 0


def is_stale(look: Look, state: PartitionMap) -> bool:
    """Whether a broker answered that leads no longer: the map has seen a later leader's log."""
    return state.tail is not None and -1 < look.leader_epoch < state.tail.target_epoch


async def settle_one(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    wanted: Wanted,
    look: Look,
    scan_up_to: int | None = None,
) -> Settled:
    """Settle a partition whose log was looked at before its map was read.

    :param scan_up_to: how many target offsets may be read from the log where numbers do not settle the
        map; None: as many as it takes
    """
    if look.error:
        return Settled(None, look.error, look)
    if is_stale(look, wanted.state) or -1 < look.leader_epoch < wanted.seen_epoch:
        return Settled(None, codes.LEADER_NOT_AVAILABLE, look)
    node = leader_of(topics, wanted.target)
    topic_id = topics[wanted.target.topic].topic_id
    log: list[LogBatch] | None = None
    log_from = 0
    try:
        for _ in range(_SCANS):
            # What a look finds is written down by the copier alone: the next look starts from the map again.
            state = replace(wanted.state, segments=wanted.state.segments.copy())
            seen = look.log_look(state, wanted.own_ids, wanted.bulk_ids)
            answer = resolve(state, seen, log, log_from)
            if isinstance(answer, Resolution) and answer.first_foreign:
                # Aborted beginnings of our own are nobody else's records.
                first = await scan(cluster, node, wanted.target, topic_id, 0, look.end, first_visible=True)
                answer.first_foreign = any(not (batch.control or batch.aborted) for batch in first)
            if not isinstance(answer, NeedLog):
                return Settled(answer, 0, look)
            if look.start < 0:
                look = replace(look, start=await _log_start(cluster, node, wanted.target))
                continue
            if scan_up_to is not None and look.end - answer.start > scan_up_to:
                why = f"the target's log from offset {answer.start} on must be read to settle the offset map"
                return Settled(Unavailable(why), 0, look, unread=True)
            log_from = answer.start
            log = await scan(cluster, node, wanted.target, topic_id, log_from, look.end)
    except RawError:
        return Settled(None, codes.REQUEST_TIMED_OUT, look)
    return Settled(Unavailable("the target's log does not settle the offset map"), 0, look)
