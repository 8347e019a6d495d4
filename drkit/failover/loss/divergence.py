"""Records that only the old primary has: by partition and one by one, once it answers again.

The role of every promoted topic, in the flow's state, holds the first offset that was not copied. The records
from there on are the divergent tail: lost records, and records that the old primary accepted afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from drkit.errors import ConfigError
from drkit.failover.core.context import Context
from drkit.failover.loss.findings import Divergence, DivergenceState, PartitionDivergence
from drkit.failover.loss.tail import Passed, Take, read_tail
from drkit.flow_state.names import state_topic
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import PendingFence, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.reading.compacted import NewestValues, newest_values
from drkit.kafka.requests import TopicMetadata, all_topics
from drkit.model import TopicPartition
from drkit.status.lag.source import Ends, ends_of


def judged(frontier: int | None, log: Ends | None, *, same: bool) -> tuple[DivergenceState, int, int]:
    """Return a partition's state, the first offset to read, and how many offsets before it are gone. Pure.

    :param frontier: first offset that was not copied; None: nothing was copied
    :param log: the current start and end of the partition; None: no log
    :param same: whether it is the topic that was copied
    """
    if log is None:
        return DivergenceState.GONE, frontier or 0, 0
    if not same:
        return DivergenceState.RECREATED, log.start, 0
    start = log.start if frontier is None else frontier
    if log.end < start:
        return DivergenceState.REGRESSED, start, 0
    first = min(max(start, log.start), log.end)
    return (DivergenceState.CLEAN if start == log.end else DivergenceState.DIVERGED), first, first - start


def divergence(context: Context, take: Take = lambda _at, _record: None) -> Divergence:
    """Return the divergence of the old primary; `take` gets every record that only the old primary has.

    :raises ConfigError: no failover of this flow has promoted anything
    :raises DrkitError: a cluster refuses what has to be read
    """
    context.state.load()
    roles = {topic: role for topic, role in context.state.all(RoleRecord).items() if role.is_promoted}
    if not roles:
        raise ConfigError(
            "no failover of this flow has promoted a topic",
            where=f"flow {context.flow.name}",
            evidence="the flow copies: drkit verify compares what it has copied",
            hint="drkit divergence is for the time after drkit failover",
        )
    pending = context.state.get(PendingFence)
    owed = pending.why if pending is not None else ""
    source = context.source()
    if source is None:
        return Divergence(context.flow.name, (), context.source_error or "no answer", owed)
    skip = context.known.producers.left_out | _copied_back(context)
    try:
        tails = context.run(_look, context, source, roles, skip, take)
    except RawError as error:
        context.lose_source(error)
        return Divergence(context.flow.name, (), f"it stopped answering ({type(error).__name__})", owed)
    return Divergence(context.flow.name, tuple(tails), owed=owed)


def _copied_back(context: Context) -> frozenset[int]:
    """Return producer ids of the reverse flow: their records came from the new primary."""
    name = state_topic(context.flow.target)
    cluster = Cluster.connect(context.source_settings)
    found = newest_values(cluster, [name], verified=True).get(name, NewestValues())
    return frozenset(on_record(FlowState.of(found, f"{name} on {context.flow.source}", found.refused)))


async def _look(
    context: Context, source: RawCluster, roles: Mapping[str, RoleRecord], skip: frozenset[int], take: Take
) -> list[PartitionDivergence]:
    topics = await all_topics(source)
    existing = {name: topics[name] for name in sorted(roles) if name in topics}
    ends = await ends_of(source, existing, existing)
    out = []
    for at, frontier in _partitions(roles, existing):
        copied = context.known.topics.get(at.topic)
        same = at.topic in existing and copied is not None and _is(existing[at.topic], copied[1])
        log, leader = ends.get(at), _leader(existing, at)
        if log is None and leader is not None:
            why = "it has no leader" if leader < 0 else "its leader does not answer"
            out.append(PartitionDivergence(*at, DivergenceState.UNKNOWN, frontier or 0, why=why))
            continue
        found, first, removed = judged(frontier, log, same=same)
        tail = PartitionDivergence(*at, found, first - removed, log.end if log else None, removed=removed)
        if log is not None and found in {DivergenceState.DIVERGED, DivergenceState.RECREATED}:
            tail = _read(tail, await read_tail(source, existing[at.topic], at, (first, log.end), skip, take))
        held = log.held_offsets if log is not None else 0
        out.append(tail._replace(open_transaction=held > 0, held_back=held))
    return out


def _partitions(
    roles: Mapping[str, RoleRecord], existing: Mapping[str, TopicMetadata]
) -> Iterator[tuple[TopicPartition, int | None]]:
    """Yield every partition of the promoted topics, also those added later, with its frontier."""
    for topic in sorted(roles):
        known = dict(roles[topic].frontiers or {})
        for number in sorted(known.keys() | (existing[topic].leaders.keys() if topic in existing else set())):
            yield TopicPartition(topic, number), known.get(number)


def _leader(existing: Mapping[str, TopicMetadata], at: TopicPartition) -> int | None:
    leader = existing[at.topic].leaders.get(at.partition) if at.topic in existing else None
    return None if leader is None else leader.node


def _is(topic: TopicMetadata, wanted: UUID) -> bool:
    return topic.topic_id == wanted


def _read(tail: PartitionDivergence, passed: Passed) -> PartitionDivergence:
    if passed.error or (tail.end is not None and passed.next_offset < tail.end):
        why = f"it could be read up to offset {passed.next_offset} only (error {passed.error})"
        return tail._replace(
            found=DivergenceState.UNKNOWN, why=why, records=passed.records, bytes=passed.bytes
        )
    # Markers, aborted records and records that drkit copied there do not diverge.
    is_clean = not passed.records and not tail.removed and tail.found is DivergenceState.DIVERGED
    found = DivergenceState.CLEAN if is_clean else tail.found
    return tail._replace(found=found, records=passed.records, bytes=passed.bytes)
