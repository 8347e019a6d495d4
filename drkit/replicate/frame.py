"""What every task of one run has in common."""

from __future__ import annotations

from typing import Final

from drkit.clock import monotonic
from drkit.config import FlowSettings
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.flow_state.names import offset_map_topic
from drkit.flow_state.processes import boot_id
from drkit.flow_state.producer_ids import ProducerIds
from drkit.flow_state.records import OffsetMapRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import broker_config

GRACE_SECONDS: Final = 15.0
_EXPIRATION: Final = "producer.id.expiration.ms"
_LEASE_SHARE: Final = 4
"""Live mode ends at this fraction of the time after which a broker forgets a producer."""


def writes_for(flow: FlowSettings) -> float:
    """How long a task may write after its last sign of life, in seconds."""
    return flow.epoch_seconds + GRACE_SECONDS


def task_frame(
    flow: FlowSettings, run_id: str, target: Cluster, state: StateTopic, ids: ProducerIds
) -> TaskAssignment:
    """Everything about a task of this run but its number, its partitions, and the producers it leaves out.

    :raises DrkitError: the target does not return its settings
    """
    expiration_ms = min(
        int(broker_config(target, broker.id)[_EXPIRATION].value or 0) for broker in target.brokers
    )
    offset_map = state.get(OffsetMapRecord)
    assert offset_map is not None  # noqa: S101  made or refused before any task
    return TaskAssignment(
        flow=flow.name,
        run_id=f"{run_id}.{monotonic():.3f}",
        epoch=0,
        task=0,
        plan=0,
        producer_id=ids.current.id,
        producer_epoch=ids.current.epoch,
        own_producer_ids=ids.live,
        skip_producer_ids=(),
        map_topic=offset_map_topic(flow.source),
        state_topic=state.name,
        # The deadline of every writer stays far below the expiration.
        epoch_seconds=min(flow.epoch_seconds, expiration_ms / 1000 / _LEASE_SHARE),
        grace_seconds=min(GRACE_SECONDS, expiration_ms / 1000 / _LEASE_SHARE),
        live_max_age_ms=expiration_ms // _LEASE_SHARE,
        partitions=(),
        bulk_producer_ids=ids.bulk,
        map_id=str(offset_map.topic_id),
        lease_seconds=flow.lease_seconds,
        boot_id=boot_id(),
    )
