"""Open transactions that hold records back above the last stable offset, and their faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
import shlex
from typing import Final, NamedTuple

from drkit.flow_state.left_out import LeftOut
from drkit.flow_state.names import command_that_ends
from drkit.kafka.raw import RawCluster, RequestUnsupported
from drkit.kafka.requests import TopicMetadata, fetch_one, metadata
from drkit.kafka.transactions import Ongoing, OpenProducer, ongoing, open_in
from drkit.model import TopicPartition
from drkit.status.lag.source import MOST_SAMPLES, Ends, HeldBack, ends_of, sample_bytes
from drkit.wire import CorruptBatch, split

_AT_ONCE: Final = 16


class Holder(NamedTuple):
    """An open transaction of one partition."""

    opened: OpenProducer
    known: Ongoing | None
    """The coordinator's description, or None if no coordinator knows it, or drkit may not see it."""

    @property
    def is_current(self) -> bool:
        """Return whether it is the transaction that the coordinator describes, and will end."""
        return self.known is not None and self.opened.at in self.known.partitions


class HeldInPartition(NamedTuple):
    """The records that open transactions hold back in one partition."""

    back: HeldBack
    holders: tuple[Holder, ...]
    """The open transactions by first offset: the first one determines the last stable offset."""


async def held_back(
    cluster: RawCluster,
    topics: Mapping[str, TopicMetadata],
    ends: Mapping[TopicPartition, Ends],
    skip: LeftOut,
) -> dict[TopicPartition, HeldInPartition]:
    """Return each partition whose last stable offset is below its high watermark. Without one, send nothing.

    :param skip: producers whose records the flow leaves out
    :raises RawError: no answer; an incomplete record would stay wrong while the source is lost
    """
    above = {at: e for at, e in ends.items() if e.held_offsets}
    leaders = {at: topics[at.topic].leaders[at.partition].node for at in above}
    holders = await _holders(cluster, leaders)
    largest = sorted(above, key=lambda at: -above[at].held_offsets)
    held_in = {at: HeldInPartition(_upper_bound(e), holders.get(at, ())) for at, e in above.items()}
    sample = sample_bytes(len(above))

    async def look(tp: TopicPartition) -> None:
        where, e, open_there = (tp.topic, topics[tp.topic].topic_id), above[tp], held_in[tp].holders
        response = await fetch_one(
            cluster, leaders[tp], where, tp.partition, e.end, committed=False, max_bytes=sample, max_wait_ms=0
        )
        data, left_out = bytes(response.records or b""), skip.ids_before_cut(tp)
        back = counted_held(e, data, left_out, _undecided(open_there), skip.cuts.get(tp))
        held_in[tp] = HeldInPartition(back, open_there)

    await cluster.loop.some_at_once(look, largest[:MOST_SAMPLES], _AT_ONCE)
    return held_in


async def held_by_others(
    cluster: RawCluster, names: Iterable[str], own: frozenset[int]
) -> dict[TopicPartition, HeldInPartition]:
    """Return partitions of some topics in which a producer other than drkit has an open transaction.

    :param own: producer ids of drkit
    :raises RawError: no answer
    """
    topics = await metadata(cluster, sorted(names))
    ends = await ends_of(cluster, topics, [n for n, t in topics.items() if not t.error])
    above = {tp: e for tp, e in ends.items() if e.held_offsets}
    leaders = {tp: topics[tp.topic].leaders[tp.partition].node for tp in above}
    held: dict[TopicPartition, HeldInPartition] = {}
    for tp, holders in (await _holders(cluster, leaders)).items():
        others = tuple(h for h in holders if h.opened.producer_id not in own)
        if others:
            held[tp] = HeldInPartition(_upper_bound(above[tp]), others)
    return held


def with_held(
    ends: Mapping[TopicPartition, Ends], held: Mapping[TopicPartition, HeldInPartition]
) -> dict[TopicPartition, Ends]:
    """Return the ends, each with what is held back there."""
    return {at: e._replace(held=held[at].back) if at in held else e for at, e in ends.items()}


async def _holders(
    cluster: RawCluster, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[Holder, ...]]:
    """Return open transactions by partition, or none if the brokers do not report them (before Kafka 2.8)."""
    if not leaders:
        return {}
    try:
        opened = await open_in(cluster, leaders)
    except RequestUnsupported:
        return {}
    known = await ongoing(cluster, {o.producer_id for o in opened})
    holders: dict[TopicPartition, tuple[Holder, ...]] = {}
    for o in sorted(opened, key=lambda o: o.state.open_since):
        holders[o.at] = (*holders.get(o.at, ()), Holder(o, known.get(o.producer_id)))
    return holders


def _undecided(holders: tuple[Holder, ...]) -> dict[int, int]:
    return {
        h.opened.producer_id: h.opened.state.open_since
        for h in holders
        if not (h.is_current and h.known is not None and h.known.owner.commits)
    }


def counted_held(
    ends: Ends, data: bytes, skip: frozenset[int], undecided: Mapping[int, int], cut: int | None = None
) -> HeldBack:
    """Count the records held back in a fetch response that begins at the last stable offset. Pure.

    Offsets beyond the response count as acknowledged records.

    :param skip: producers whose records before the cut are left out
    :param undecided: producer id → first offset of its open transaction
    :param cut: the offset at which a return began to copy, or None if all of them are left out
    """
    end = ends.end + ends.held_offsets
    records = acknowledged = size = 0
    read_up_to, first_ms, oldest = ends.end, None, None
    try:
        for header, _ in split(data):
            if header.base_offset >= end:
                break
            read_up_to = max(read_up_to, min(header.next_offset, end))
            left_out = header.producer_id in skip and (cut is None or header.base_offset < cut)
            if header.is_control or left_out:
                continue
            records, size = records + header.count, size + header.size
            first_ms = header.base_timestamp if first_ms is None else first_ms
            since = undecided.get(header.producer_id)
            if since is None or not header.is_transactional or header.base_offset < since:
                acknowledged += header.count
                oldest = header.base_timestamp if oldest is None else min(oldest, header.base_timestamp)
    except CorruptBatch:
        return _upper_bound(ends)
    beyond = end - read_up_to
    if beyond:  # later records are no older than the first record read
        oldest = first_ms if oldest is None else oldest
    return HeldBack(records + beyond, acknowledged + beyond, oldest, None if beyond else size)


def _upper_bound(ends: Ends) -> HeldBack:
    return HeldBack(ends.held_offsets, ends.held_offsets, None, None)


HANGING: Final = "hanging_transaction"
"""Code of the fault, kind of the event."""
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition and holds records back there."""

    cluster: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    transactional_id: str | None
    """None: no coordinator reports it."""
    state: str | None
    """Kafka's name of the state, or None if no coordinator knows the transaction."""
    timeout_seconds: float | None
    """After this time its coordinator aborts it, or None without a coordinator."""
    age_seconds: float | None
    """Since its coordinator began it; without one since its producer's last record. None: not known."""
    held_back: int
    """Upper bound on the partition's records above the last stable offset."""
    command: str
    """Ends it now; if it is drkit's own, a command of drkit, which knows whether it is committed."""
    source: bool = True
    """On the flow's source; False: on its target."""

    def named(self) -> str:
        """Producer and transactional id."""
        known = f", transactional id {self.transactional_id}" if self.transactional_id is not None else ""
        return f"producer id {self.producer_id}{known}"


def open_transaction(
    cluster: tuple[str, str],
    tp: TopicPartition,
    held: HeldInPartition,
    holder: Holder,
    now_ms: int,
    *,
    source: bool,
) -> OpenTransaction:
    """Return the description of one transaction.

    :param cluster: alias and bootstrap servers
    """
    opened, state, known = holder.opened, holder.opened.state, holder.known
    current = known if holder.is_current else None
    began = current.started_ms if current is not None and current.started_ms >= 0 else state.last_timestamp
    return OpenTransaction(
        cluster[0],
        *tp,
        producer_id=opened.producer_id,
        producer_epoch=state.epoch,
        coordinator_epoch=state.coordinator_epoch,
        start_offset=state.open_since,
        transactional_id=known.owner.transactional_id if known is not None else None,
        state=current.owner.state if current is not None else None,
        timeout_seconds=current.timeout_ms / 1000 if current is not None else None,
        age_seconds=max(0, now_ms - began) / 1000 if began >= 0 else None,
        held_back=held.back.records,
        command=_command(cluster[1], tp, holder),
        source=source,
    )


def _command(servers: str, at: TopicPartition, holder: Holder) -> str:
    """Return the command that ends the transaction: of Kafka's own tool, unless it is one of drkit's.

    A marker that bypasses an active coordinator would split the transaction: its producer could continue and
    commit the rest. So the coordinator must end such a transaction.
    """
    name = holder.known.owner.transactional_id if holder.known is not None else ""
    if (own := command_that_ends(name)) is not None:
        return own
    tool = f"kafka-transactions.sh --bootstrap-server {shlex.quote(servers)}"
    if holder.is_current:
        return f"{tool} forceTerminateTransaction --transactionalId {shlex.quote(name)}"
    return (
        f"{tool} abort --topic {shlex.quote(at.topic)} --partition {at.partition}"
        f" --start-offset {holder.opened.state.open_since}"
    )


def hanging(transactions: Iterable[OpenTransaction], limit_seconds: float) -> list[OpenTransaction]:
    """Return transactions that are open for longer than a limit, the oldest first."""
    late = [t for t in transactions if t.age_seconds is not None and t.age_seconds > limit_seconds]
    return sorted(late, key=lambda t: -(t.age_seconds or 0.0))


def fault_text(late: Sequence[OpenTransaction], limit_seconds: float) -> str:
    """Return the fault text: the oldest transaction with the command to end it, then further ones."""
    first, after = late[0], late[0].timeout_seconds
    behind = f"from offset {first.start_offset} on"
    effect = f"consumers of committed records there see nothing {behind}"
    if first.source:
        effect = f"{first.held_back:,} records {behind} are not copied until it ends"
    limit = "no coordinator ends it" if after is None else f"its coordinator aborts it after {after:g} s"
    if command_that_ends(first.transactional_id or "") is not None:
        limit += "; its records may count as copied, so abort nothing by hand"
    others = [f"{t.topic}-{t.partition} on {t.cluster}" for t in late[1 : _SHOWN + 1]]
    more = f"; likewise {', '.join(others)}" if others else ""
    more += f" and {len(late) - 1 - _SHOWN} more" if len(late) > _SHOWN + 1 else ""
    return (
        f"{first.topic}-{first.partition} on {first.cluster}: a transaction of {first.named()} is open for"
        f" {first.age_seconds or 0:,.0f} s, more than {limit_seconds:g} s; {effect}; {limit}; end it: "
        f"{first.command}{more}"
    )


def held_by(transactions: Iterable[OpenTransaction]) -> str:
    """Return the holders of the source's held records as text, for the statement of a loss."""
    on_source = sorted((t for t in transactions if t.source), key=lambda t: -(t.age_seconds or 0.0))
    if not on_source:
        return "an open transaction"
    oldest = on_source[0]
    since = "" if oldest.age_seconds is None else f", open for {oldest.age_seconds:,.0f} s"
    number = len({t.producer_id for t in on_source})
    if number == 1:
        return f"an open transaction of {oldest.named()}{since}"
    return f"open transactions of {number} producers, the oldest of {oldest.named()}{since}"
