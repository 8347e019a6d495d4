"""The refusals of `drkit control adopt`: it would replace or delete needed records. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drkit.clock import wall_ms
from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.failover.adopt.records import TopicKind, TopicRecords, is_valid
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.state import FlowState


def refuse_running(flow: FlowSettings, topics: Iterable[TopicRecords]) -> None:
    """Refuse while the flow runs: the records that were read would replace newer ones.

    :raises Refused: a replicator runs
    """
    state = FlowState()
    for record in (r for t in topics if t.kind is TopicKind.STATE for r in t.newest(unsigned=True)):
        state.take(record.key or b"", record.value)
    replicator = replicator_of(state, wall_ms())
    if replicator is not None and replicator.alive:
        raise Refused(
            "adopt_flow_running",
            where=f"flow {flow.name}: host {replicator.host}, process {replicator.process}",
            evidence=f"it renewed its lease {replicator.age_seconds:.1f} s ago",
        )


def refuse_loss(topics: Iterable[TopicRecords]) -> None:
    """Refuse to delete records without a MAC if no record has one: that would delete all of drkit's state.

    :raises Refused: no record of the flow's state was written with this key
    """
    state = [t for t in topics if t.kind is TopicKind.STATE]
    if not any(is_valid(r) for t in state for r in t.records):
        raise Refused(
            "adopt_nothing_signed",
            where=", ".join(f"{t.name} on {t.where}" for t in state),
            evidence=", ".join(f"{n} {sign}" for t in state for sign, n in t.counts().items())
            or "no records",
        )


def refuse_change(topic: TopicRecords, ends: Mapping[int, int]) -> None:
    """Refuse to sign a topic that has changed: the records that were read would replace newer ones.

    :param ends: current end offsets of the topic's partitions
    :raises Refused: they differ from those at the time of the read
    """
    if topic.ends != ends:
        raise Refused(
            "adopt_state_changing",
            where=f"{topic.name} on {topic.where}",
            evidence=f"it ended at {topic.ends or 'none'}, now at {dict(ends) or 'none'}",
        )
