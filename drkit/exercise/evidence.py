"""Collects the facts at the end of a scenario into its history: runs, logs, positions, probes, what is left.

It only reads, but for one record to each topic that moved: whether a side takes writes is known by trying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

from pyarrow import parquet

from drkit.config import FlowSettings
from drkit.errors import DrkitError, error_text
from drkit.exercise.clients import REFUSALS, envelope_of
from drkit.exercise.events import (
    OTHER,
    PRIMARY,
    STANDBY,
    ExportRead,
    FinalPosition,
    LogEnd,
    LookFailed,
    Probed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.exercise.stage import PARTITIONS, ClientStage
from drkit.failover.report import report_of
from drkit.flow_state.records import PendingFence, PendingLift
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import RunLog
from drkit.journal.machine import FAILOVER, RunState
from drkit.journal.topic import JournalReader
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import ask_once
from drkit.kafka.reading.range_reader import RangeReader
from drkit.kafka.topics import describe_topics, list_offsets
from drkit.model import TopicPartition

PROBE: Final = "probe"
"""Prefix of the value of a probe."""
_CATCH_UP_SECONDS: Final = 60.0


def collect(stage: ClientStage) -> None:
    """Stop the writers, let the live group read to the end, and record the facts at the end.

    What cannot be read is recorded as a failed look.
    """
    record, flows, active = stage.recorder.record, stage.flows, PRIMARY
    stage.stop_clients(*(name for name in stage.clients if name != stage.live_group))
    runs = [(source, log) for source, flow in flows.items() for log in _runs(stage, source, flow)]
    for source, log in sorted(runs, key=lambda run: run[1].entries[0].at_ms):
        table, report = log.table.name, report_of(log, flows[source].name)
        entries = [entry.to_json() for entry in log.entries]
        record(RunReported(table, log.run_id, log.state, source, report, entries))
        if table == FAILOVER.name and log.state == RunState.DONE:
            active = OTHER[source]
    for what, look in _LOOKS.items():
        try:
            look(stage, active)
        except DrkitError as error:
            record(LookFailed(what, error.in_short))
    stage.stop_clients()
    for name, child in stage.replicators.items():
        stage.note_ended(f"replicator {name}", child)
    record(ScenarioEnded(active, [pending for each in flows.items() for pending in _pending(stage, *each)]))


def _runs(stage: ClientStage, source: str, flow: FlowSettings) -> Iterable[RunLog]:
    """Return the runs in the journal of a flow, which is on its target."""
    target, name = stage.cluster(OTHER[source]), flow.source
    try:
        journal = ask_once(
            target, stage.WHERE, lambda raw: JournalReader(raw, name).read_existing(), what="read the journal"
        )
        return journal.runs.values()
    except DrkitError as error:
        stage.recorder.record(LookFailed(f"journal of {flow.name}", error.in_short))
        return ()


def _pending(stage: ClientStage, source: str, flow: FlowSettings) -> Iterator[str]:
    """Return the fences, and the lifts of fences, that are pending for a flow."""
    target = stage.cluster(OTHER[source])
    with StateTopic(target, flow.source) as state:
        state.load_existing(Cluster.connect(target))
        for kind in (PendingLift,) if stage.is_source_lost else (PendingFence, PendingLift):
            if state.get(kind) is not None:
                yield f"{kind.__name__} of {flow.name}"


def _read_to_the_end(stage: ClientStage, active: str) -> None:
    """Let the live group read everything on the active side."""
    cluster = Cluster.connect(stage.cluster(active))
    topic = stage.groups[stage.live_group]
    ends = list_offsets(cluster, _partitions(cluster, topic), "latest", committed=True)

    def is_read() -> bool:
        committed = stage.committed(active, stage.live_group)
        # Markers of transactions at the end are read by no consumer.
        return all(committed.get(tp, 0) >= end for tp, end in ends.items() if end)

    what = f"group {stage.live_group} at the end of {topic} on {active}"
    stage.wait_for(is_read, what, _CATCH_UP_SECONDS)


def _copy_to_the_end(stage: ClientStage, active: str) -> None:
    if stage.history().is_copied:
        stage.wait_protected(active, whole=True)


def _probe(stage: ClientStage, active: str) -> None:
    moved = {topic for run in stage.history().of(RunReported) for topic in run.report.get("topics", ())}
    # The copies of topics that never moved are passive by agreement alone, so they are not probed.
    for cluster in (PRIMARY, STANDBY) if moved and not stage.is_source_lost else (active,):
        for topic in stage.topics:
            error, _ = stage.send(cluster, topic, f"{PROBE} {cluster}")
            if error is not None and error.code() not in REFUSALS:  # it is unknown, as after a timeout
                stage.recorder.record(LookFailed(f"probe of {topic} on {cluster}", error.name()))
            else:
                name = "" if error is None else error.name()
                stage.recorder.record(Probed(cluster, topic, is_accepted=error is None, error=name))


def _partitions(cluster: Cluster, *topics: str) -> list[TopicPartition]:
    described = describe_topics(cluster, topics)
    return [TopicPartition(topic.name, p) for topic in described.values() for p in topic.leaders]


def _read_logs(stage: ClientStage, _active: str) -> None:
    for name in (PRIMARY, STANDBY):
        cluster = Cluster.connect(stage.cluster(name))
        with closing(RangeReader(cluster.settings)) as reader:
            partitions = sorted(_partitions(cluster, *stage.topics))
            # Asked first, as the library looks for the leaders of a new topic only once a second.
            for tp, start, end in [(tp, reader.log_start(tp), reader.log_end(tp)) for tp in partitions]:
                # The reader returns at the end, or raises; offsets behind the last record are markers.
                for record in reader.read(tp, start, end):
                    value = (record.value or b"").decode(errors="replace")
                    if not value.startswith(PROBE):
                        envelope = envelope_of(record.key, record.headers, record.timestamp)
                        stage.recorder.record(Read(name, *tp, record.offset, value, envelope=envelope))
                stage.recorder.record(LogEnd(name, *tp, start, end))


def _read_export(stage: ClientStage, active: str) -> None:
    """Read what returns have exported, without drkit's own reader."""
    for file in sorted(stage.export_folder.rglob("*.parquet")):
        try:
            rows = parquet.read_table(file).to_pylist()
        except (OSError, ValueError) as error:
            stage.recorder.record(LookFailed(f"export {file.name}", error_text(error)))
            continue
        for row in rows:
            headers = [(header["name"].decode(), header["value"]) for header in row["headers"]]
            envelope = envelope_of(row["key"], headers, row["timestamp"])
            tp, value = TopicPartition(file.parts[-3], row["partition"]), (row["value"] or b"").decode()
            stage.recorder.record(ExportRead(OTHER[active], *tp, row["offset"], value, envelope=envelope))


def _read_positions(stage: ClientStage, _active: str) -> None:
    for group, topic in stage.groups.items():
        missing = {TopicPartition(topic, p) for p in range(PARTITIONS)}
        for name in OTHER:
            for tp, offset in stage.committed(name, group).items():
                stage.recorder.record(FinalPosition(name, tp.topic, tp.partition, group, offset))
                missing.discard(tp)
        for tp in sorted(missing):
            stage.recorder.record(LookFailed(f"position of group {group} in {tp}", "no cluster has it"))


_LOOKS: Final = {
    "the live group at the end": _read_to_the_end,
    "the copy at the end": _copy_to_the_end,  # a probe that a standby accepts would end it
    "probes": _probe,
    "logs": _read_logs,
    "exports": _read_export,
    "positions": _read_positions,
}
