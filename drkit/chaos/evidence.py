"""Collects the facts at the end of a scenario into its history: runs, logs, positions, probes, what is left.

It only reads, but for one record to each topic that moved: whether a side takes writes is known by trying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final

from drkit.chaos.client_stage import ClientStage
from drkit.chaos.history import (
    OTHER,
    PRIMARY,
    STANDBY,
    FinalPosition,
    LogEnd,
    LookFailed,
    Probed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.config import FlowSettings
from drkit.errors import DrkitError
from drkit.failover.core.machine import FAILOVER, RunState
from drkit.failover.journal.entries import JournalHistory, RunLog
from drkit.failover.journal.topic import JournalTopic
from drkit.failover.journal.violations import violations
from drkit.failover.report import report_of
from drkit.flow_state.names import state_topic
from drkit.flow_state.records import PendingFence, PendingLift
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError, Message, Producer
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.topics import describe_topics, list_offsets, topic_names
from drkit.model import TopicPartition
from drkit.verify.reading import RangeReader

PROBE = "probe"
"""How the value of a probe begins."""
_FLUSH_SECONDS = 15.0
_CATCH_UP_SECONDS = 60.0


def collect(stage: ClientStage) -> None:
    """Stop the writers, let the live group read to the end, and record the facts at the end.

    What cannot be read is recorded as a failed look.
    """
    writers = [name for name in stage.clients if name != stage.live_group]
    stage.stop_clients(*writers)
    runs = [(flow, run) for flow in stage.flows.items() for run in _runs(stage, *flow)]
    for (source, flow), run in sorted(runs, key=lambda each: each[1].entries[0].at_ms):
        report, broken = report_of(run, flow.name), violations(run)
        stage.recorder.record(
            RunReported(
                table=run.table.name,
                run=run.run_id,
                state=run.state,
                source=source,
                report=report,
                entries=len(run.entries),
                violations=broken,
            )
        )
    active = _active(list(stage.history().of(RunReported)))
    for what, look in _LOOKS.items():
        try:
            look(stage, active)
        except DrkitError as error:
            stage.recorder.record(LookFailed(what, error.in_short))
    stage.stop_clients()
    stage.recorder.record(ScenarioEnded(active, list(_left(stage, runs))))


def _runs(stage: ClientStage, source: str, flow: FlowSettings) -> list[RunLog]:
    """Return the runs in the journal of a flow, which is on its target."""

    async def ask(raw: RawCluster) -> JournalHistory:
        topic = JournalTopic(raw, flow.source, flow.target)
        if await topic.exists():
            await topic.read()
        return topic.history

    try:
        history = ask_once(stage.cluster(OTHER[source]), stage.WHERE, ask, what="read the journal")
    except DrkitError as error:
        stage.recorder.record(LookFailed(f"journal of {flow.name}", error.in_short))
        return []
    return list(history.runs.values())


def _active(runs: list[RunReported]) -> str:
    """Return the cluster that takes writes: the target of the newest failover that was done."""
    done = [r for r in runs if r.table == FAILOVER.name and r.state == RunState.DONE]
    return OTHER[done[-1].source] if done else PRIMARY


def _read_to_the_end(stage: ClientStage, active: str) -> None:
    """Let the live group read everything on the active side."""
    cluster = Cluster.connect(stage.cluster(active))
    ends = list_offsets(cluster, _partitions(cluster, stage.live_topic), "latest", committed=True)

    def is_read() -> bool:
        committed = stage.committed(active, stage.live_group)
        # Markers of transactions at the end are read by no consumer.
        return all(committed.get(tp, 0) >= end for tp, end in ends.items() if end)

    stage.wait_for(
        is_read, f"group {stage.live_group} at the end of {stage.live_topic} on {active}", _CATCH_UP_SECONDS
    )


def _probe(stage: ClientStage, active: str) -> None:
    moved = {topic for run in stage.history().of(RunReported) for topic in run.report.get("topics", ())}
    # The copies of topics that never moved are passive by agreement alone, so they are not probed.
    sides = (PRIMARY, STANDBY) if moved and not stage.is_source_lost else (active,)
    for cluster in sides:
        for topic in stage.topics:
            error = _send(stage, cluster, topic)
            stage.recorder.record(Probed(cluster, topic, is_accepted=not error, error=error))


def _send(stage: ClientStage, cluster: str, topic: str) -> str:
    errors: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        errors.append("" if error is None else error.name())

    producer = Producer({**stage.application(cluster), "log_level": 0})
    # A compacted topic takes no record without a key.
    producer.produce(topic, f"{PROBE} {cluster}", PROBE, partition=0, on_delivery=delivered)
    producer.flush(_FLUSH_SECONDS)
    return errors[0] if errors else "no answer"


def _partitions(cluster: Cluster, *topics: str) -> list[TopicPartition]:
    described = describe_topics(cluster, topics)
    return [TopicPartition(topic.name, p) for topic in described.values() for p in topic.leaders]


def _read_logs(stage: ClientStage, _active: str) -> None:
    for name in (PRIMARY, STANDBY):
        settings = stage.cluster(name)
        cluster = Cluster.connect(settings)
        partitions = _partitions(cluster, *stage.topics)
        starts = list_offsets(cluster, partitions, "earliest")
        with closing(RangeReader(settings)) as reader:
            # Asked first, as the library looks for the leaders of a new topic only once a second.
            ends = {tp: reader.log_end(tp) for tp in sorted(partitions)}
            for tp, end in ends.items():
                read_to = starts[tp]
                for record in reader.read(tp, starts[tp], end):
                    value = (record.value or b"").decode(errors="replace")
                    if not value.startswith(PROBE):
                        stage.recorder.record(Read(name, *tp, record.offset, value))
                    read_to = record.offset + 1
                # The reader returns at the end; offsets behind the last record are markers.
                stage.recorder.record(LogEnd(name, *tp, starts[tp], end, max(read_to, end)))


def _read_positions(stage: ClientStage, _active: str) -> None:
    for name in (PRIMARY, STANDBY):
        for group in stage.groups:
            for tp, offset in stage.committed(name, group).items():
                stage.recorder.record(FinalPosition(name, tp.topic, tp.partition, group, offset))


_LOOKS: Final[Mapping[str, Callable[[ClientStage, str], None]]] = {
    "the live group at the end": _read_to_the_end,
    "probes": _probe,
    "logs": _read_logs,
    "positions": _read_positions,
}


def _left(stage: ClientStage, runs: list[tuple[tuple[str, FlowSettings], RunLog]]) -> Iterator[str]:
    """Return what a scenario should have ended: open runs and pending fences."""
    for (_, flow), run in runs:
        if not run.state.is_over:
            yield f"run {run.run_id} of {flow.name} is {run.state.value}"
    for source, flow in stage.flows.items():
        target = stage.cluster(OTHER[source])
        if state_topic(flow.source) not in topic_names(Cluster.connect(target)):
            continue
        with StateTopic(target, flow.source) as state:
            state.load()
            for pending in (PendingLift,) if stage.is_source_lost else (PendingFence, PendingLift):
                if state.get(pending) is not None:
                    yield f"{pending.__name__} of {flow.name}"
