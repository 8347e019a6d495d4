"""Before the old primary's partitions are emptied: which other flows read from it.

What a return writes there again are new records for every reader. A flow in the other direction leaves out
what it wrote itself; a flow to a third cluster does not, and its copy would have every record twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from typing import Final

from drkit.clock import wall_ms
from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, DrkitError, NotAuthorized, Refused
from drkit.failover.core.context import Context
from drkit.flow_state.names import state_topic
from drkit.flow_state.records import GenerationRecord, LeaseRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.reading.log_tail import LogTail
from drkit.mm2_topics.heartbeats import TOPIC
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Heartbeat
from drkit.wire import Record

_NEW_MS: Final = 60_000
"""Longer than clocks of two hosts usually differ."""
_LAST: Final = 1_000
_SECONDS: Final = 5.0


def refuse_other_flows(context: Context, topics: Collection[str]) -> None:
    """Refuse to empty topics of the old primary that another flow copies to another cluster.

    :param topics: by their names on the old primary
    :raises Refused: one is configured here, or runs by its state on a cluster of this configuration
    :raises DrkitError: such a cluster answers, and its state cannot be read
    """
    found = [f"{flow} copies {first_of(some)}" for flow, some in _others(context, topics) if some]
    flows = [f"{context.flow.source}->{alias}" for alias in ([] if found else _beating(context))]
    found += [f"{flow} runs: its heartbeats are new" for flow in flows]
    if found:
        raise Refused("other_flow_reads", where=context.flow.source, evidence="; ".join(sorted(set(found))))


def _others(context: Context, topics: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    source, pair = context.flow.source, {context.flow.source, context.flow.target}
    configured = [f for f in context.settings.flows if f.source == source and f.target not in pair]
    for flow in configured:
        yield flow.name, sorted(t for t in topics if flow.copies(t))
    for alias in sorted(set(context.settings.clusters) - pair - {f.target for f in configured}):
        with suppress(ClusterUnreachable, NotAuthorized):
            yield f"{source}->{alias}", _copied_to(context, alias, topics)


def _beating(context: Context) -> Collection[str]:
    """Clusters outside of this configuration to which a flow runs, by its heartbeats on the old primary."""
    settings, since = context.source_settings, wall_ms() - _NEW_MS
    found: set[str] = set()

    def take(record: Record) -> None:
        with suppress(ValueError):  # not a heartbeat
            beat = Heartbeat.decode(record.key or b"", record.value or b"")
            if beat.source == context.flow.source and beat.timestamp > since:
                found.add(beat.target)

    with closing(LogTail(settings, TopicPartition(TOPIC, 0), take)) as tail, suppress(DrkitError):
        tail.skip_to_last(_LAST, _SECONDS)
        tail.read(_SECONDS)
    return sorted(found - set(context.settings.clusters))


def _copied_to(context: Context, alias: str, topics: Collection[str]) -> list[str]:
    """The topics that a flow from the old primary to a cluster copies, if it runs."""
    cluster, name = Cluster.connect(context.settings.cluster(alias)), state_topic(context.flow.source)
    state = FlowState.of(newest_values(cluster, [name]).get(name) or {})
    lease = state.readable(LeaseRecord).get("")
    if lease is None or not lease.is_fresh(wall_ms()):
        return []
    return sorted(state.readable(GenerationRecord).keys() & set(topics))
