"""Decides transactions of bulk mode that are open on a partition after their coordinator has ended them.

A partition may miss the marker of a transaction: a coordinator leaves it out (docs/internal/upstream.md), or
an unclean election loses it. Readers of committed records then see nothing from there on. Once its producer
has begun a new epoch, the coordinator decides nothing more about it: the next task that holds the bucket, or
FREEZE of a failover, writes the marker.

A transaction appends to copies, and its records of the map to one bucket. Its producer begins no other while
something of it is open, since one marker would end both. So:

| still open on | what decides | it is committed |
| --- | --- | --- |
| a copy | the map | if a segment of it begins at the transaction's first offset |
| the map | the copies | if readers of committed records see what its records describe on one of them |
| both | | no: readers of committed records see none of it |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from uuid import UUID

from drkit.control_key import Signatures
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.reading.log_tail import LogTail, NoAnswerYet
from drkit.kafka.requests import metadata
from drkit.kafka.transactions import OpenProducer, open_in, owners
from drkit.model import TopicPartition
from drkit.offset_map.scan import scan
from drkit.offsets import Intent, MapKey, PartitionMap, decode_record
from drkit.offsets.map_record import Mode
from drkit.wire import Record


async def left_open(
    cluster: RawCluster, look: Callable[[], Awaitable[list[OpenProducer]]]
) -> dict[str, OpenProducer]:
    """Return what is open although its coordinator has ended it, by transactional id. Raises as `look`."""
    opened = await look()
    known = await owners(cluster, {o.producer_id for o in opened}) if opened else {}
    ended = {i: o.transactional_id for i, o in known.items() if o.state.startswith(("Empty", "Complete"))}
    # Markers may have arrived since, and a new transaction begins elsewhere.
    later = await look() if ended else []
    return {ended[o.producer_id]: o for o in later if o in opened and o.producer_id in ended}


def is_in_map(state: PartitionMap, open_since: int) -> bool:
    """Return whether the map shows that a transaction still open on a target partition was committed.

    A later transaction may have copied the same records to other offsets, which the target has lost since.
    """
    record = state.segments.record_before(open_since + 1)
    is_copied = state.tail is not None and state.tail.copied_end > open_since
    return is_copied and record is not None and record[1] == open_since


async def records_of(cluster: RawCluster, opened: OpenProducer) -> list[Record]:
    """Return the records of an open transaction on the map. Raises RawError if not all can be read."""
    signatures, unread = Signatures(cluster.control, opened.at), list[str]()
    topic = (await metadata(cluster, [opened.at.topic]))[opened.at.topic]

    def pass_over(_offset: int, reason: str) -> None:
        unread.append(reason)

    tail = LogTail(cluster, opened.at, lambda _: None, pass_over, signatures=signatures, topic=topic)
    tail.next_offset = opened.state.open_since
    try:
        await tail.to_end(cluster)
    except NoAnswerYet as error:
        unread.append(str(error))
    if unread:
        raise RawError(f"{opened.at}: {unread[0]}")
    return tail.undecided_of.get(opened.producer_id, [])


class BulkOutcomes:
    """Decides open transactions of bulk producers, each of an older epoch than the newest one.

    :param maps: the partition of the map of each producer, by its id
    :param copies: the names of the copies that may be in these transactions, by their topic's id
    :param read_map: returns the map of a copy; called while no transaction to decide is open on the map
    """

    def __init__(
        self,
        cluster: RawCluster,
        maps: Mapping[int, TopicPartition],
        copies: Mapping[UUID, str],
        read_map: Callable[[TopicPartition], Awaitable[PartitionMap]],
    ) -> None:
        self._cluster, self._copies, self._read_map = cluster, copies, read_map
        self._maps = maps
        self.ended: dict[str, str] = {}
        """Partition → the outcome of a transaction that was open on it."""

    async def is_committed(self, opened: OpenProducer) -> bool:
        """Return whether a transaction that is open on a partition is committed.

        :raises RawError: a broker does not answer, or the map has to be ended first
        :raises Failed: the map cannot be read
        """
        offset_map = self._maps[opened.producer_id]
        if opened.at == offset_map:
            commits = await self._is_visible(opened)
        elif await self._is_open(offset_map, await self._leader(offset_map), opened):
            raise RawError(f"its transaction is open on {offset_map}, too")
        else:
            commits = is_in_map(await self._read_map(opened.at), opened.state.open_since)
        self.ended[str(opened.at)] = "committed" if commits else "aborted"
        return commits

    async def _leader(self, tp: TopicPartition, topic_id: UUID | None = None) -> int | None:
        topic = (await metadata(self._cluster, [tp.topic]))[tp.topic]
        leader = topic.leaders.get(tp.partition)
        if leader is None or topic_id not in {None, topic.topic_id}:
            return None  # it was deleted
        if leader.node < 0:
            raise RawError(f"{tp} has no leader")
        return leader.node

    async def _is_open(self, tp: TopicPartition, node: int | None, opened: OpenProducer) -> bool:
        if node is None:
            return False
        others = await open_in(self._cluster, {tp: node}, {opened.producer_id}, complete=True)
        return any(other.state.epoch <= opened.state.epoch for other in others)

    async def _is_visible(self, opened: OpenProducer) -> bool:
        """Return whether records of the transaction are committed on a copy."""
        for key, start in await self._described(opened):
            tp = TopicPartition(self._copies.get(key.target_id, ""), key.partition)
            node = await self._leader(tp, key.target_id) if tp.topic else None
            if node is None or await self._is_open(tp, node, opened):
                continue
            batches = await scan(self._cluster, node, tp, key.target_id, start, start + 1)
            if (start, opened.producer_id) in {(b.base, b.producer_id) for b in batches if not b.aborted}:
                return True
        return False

    async def _described(self, opened: OpenProducer) -> list[tuple[MapKey, int]]:
        """Return the copies that the transaction's records of the map describe, and where they begin."""
        described = []
        for record in await records_of(self._cluster, opened):
            with suppress(ValueError):
                decoded = decode_record(record.key, record.value)
                if isinstance(decoded.record, Intent) and decoded.record.mode is Mode.BULK:
                    described.append((decoded.where, decoded.record.downstream))
        return described
