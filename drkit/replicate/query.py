"""The Structured Streaming query of a flow: leases → copy → reports back to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import json
from pathlib import Path
import re
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from drkit import errors
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError, Failed
from drkit.replicate.copier import copy_task
from drkit.replicate.lease import TaskLease
from drkit.replicate.leases_source import source_of

Report = dict[str, Any]
_PERMANENT: Final = re.compile(r"drkit\.errors\.(ConfigError|NotAuthorized|NotAuthenticated|Refused): (.+)")
_PYTHON_ERROR: Final = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w+): (.+)$", re.MULTILINE)
_EVIDENCE_LENGTH: Final = 500


def start_query(
    spark: SparkSession,
    plan_file: Path,
    clusters: tuple[ClusterSettings, ClusterSettings],
    flow: FlowSettings,
    on_epoch: Callable[[list[Report]], None],
) -> StreamingQuery:
    """Start copying by the plan file; `on_epoch` is called with the reports when all tasks have ended.

    :param plan_file: in a folder of its own, where the query also keeps its checkpoint
    :param clusters: source and target; they travel pickled inside the task's code, never as a row
    """
    source = source_of(flow.name)
    spark.dataSource.register(source)
    leases = spark.readStream.format(source.name()).option("plan", str(plan_file)).load()
    reports = leases.mapInArrow(_copy_function(*clusters, flow), "report string")

    def collect(batch: DataFrame, _epoch: int) -> None:
        on_epoch([json.loads(row["report"]) for row in batch.collect()])

    return (
        reports.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(plan_file.parent / "checkpoint"))
        .queryName(f"drkit {flow.name}")
        .trigger(processingTime="0 seconds")
        .start()
    )


def _copy_function(
    source: ClusterSettings, target: ClusterSettings, flow: FlowSettings
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("lease").to_pylist():
                report = copy_task(TaskLease.from_json(text), source, target, flow)
                yield pa.RecordBatch.from_pydict({"report": [json.dumps(report.as_dict())]})

    return copy


def cause_of(query: StreamingQuery, flow: FlowSettings) -> DrkitError:
    """Why a query died, in one sentence instead of two stack traces."""
    exception = query.exception()
    text = str(exception) if exception is not None else "the query ended by itself"
    if found := _PERMANENT.search(text):
        kind: type[DrkitError] = getattr(errors, found[1])
        return kind(found[2].strip(), where=flow.name)
    # Behind this line Spark describes the query, not the error.
    raised = _PYTHON_ERROR.findall(text.partition("=== Streaming Query ===")[0])
    evidence = ": ".join(raised[-1]) if raised else text.strip().splitlines()[0]
    return Failed("the copy query died", where=flow.name, evidence=evidence[:_EVIDENCE_LENGTH])
