"""Records of another client on the standby since a failback: a switchover waits for a person's decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.flow_state.copied_topics import written_of
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.state import FlowState
from drkit.model import TopicPartition
from drkit.status.lag.target import CopyPosition


def places_of(context: Context) -> dict[TopicPartition, CopyPosition]:
    """Return the copied positions of the scope, by source partition. Raises RawError or Failed."""
    known, side = context.known, context.kept.side_of(context.target, context.flow.source)
    names = [name for name in known.topics if name in context.scope.topics]
    positions: dict[TopicPartition, CopyPosition] = context.run(side.places, known, names)
    return positions


def written(context: Context, places: Mapping[TopicPartition, CopyPosition]) -> dict[TopicPartition, str]:
    """Return the partitions of the scope to which others wrote since a failback → offset and producer.

    Copy tasks record such writes. The log is read as well: no task checks an idle partition between two
    epochs. An open transaction may be aborted, and counts until then.

    :param places: of the partitions, by their names on the source
    """
    own, turned = frozenset(on_record(context.state.records)), {tp.topic for tp in context.known.cuts}
    out = {}
    for tp, place in places.items():
        others = [f for f in place.foreign if f.producer_id not in own]
        if tp.topic in turned and others:
            out[tp] = _text(others[0].base, others[0].producer_id)
    return out | stopped(context.state.records, context.scope.topics)


def refusal(flow: str, target: str, writes: Mapping[TopicPartition, str]) -> Refused:
    """Return the refusal of a switchover to a cluster that has such records."""
    evidence = first_of(f"{tp} {write}" for tp, write in sorted(writes.items()))
    partitions = counted(len(writes), "partition", "has")
    return Refused("foreign_writes", where=f"{flow}: {target}", evidence=evidence, partitions=partitions)


def stopped(state: FlowState, topics: Collection[str] = ()) -> dict[TopicPartition, str]:
    """Return the partitions whose copy is recorded as stopped by foreign records → offset and producer.

    :param state: of the flow
    :param topics: the only topics, by their names on its source, or empty for all
    """
    records = written_of(state).items()
    return {tp: _text(r.offset, r.producer_id) for tp, r in records if not topics or tp.topic in topics}


def refuse_written(context: Context) -> None:
    """Refuse to open a standby to which another client wrote since a failback. Raises Refused.

    Also where the record is in an open transaction: it may still commit.
    """
    has_returned = not {tp.topic for tp in context.known.cuts}.isdisjoint(context.scope.topics)
    if writes := written(context, places_of(context) if has_returned else {}):
        raise refusal(context.flow.name, context.flow.target, writes)


def _text(offset: int, producer_id: int) -> str:
    return f"at {offset}" + (f" by producer id {producer_id}" if producer_id >= 0 else "")
