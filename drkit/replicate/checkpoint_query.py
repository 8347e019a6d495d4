"""The second Structured Streaming query of a flow: groups → checkpoints and synced offsets → reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from drkit.config import ClusterSettings, FlowSettings
from drkit.replicate.checkpoint_shard import Shard, ShardReport
from drkit.replicate.checkpoint_source import SCHEMA, source_of
from drkit.replicate.checkpoint_task import checkpoint_task

_SHARE: Final = 5
"""Of the interval: so often Spark looks whether there is another round."""
_LEAST_MS: Final = 100


def start_checkpoint_query(
    spark: SparkSession,
    plan_file: Path,
    clusters: tuple[ClusterSettings, ClusterSettings],
    flow: FlowSettings,
    on_round: Callable[[list[ShardReport]], object],
) -> StreamingQuery:
    """Start rounds by the plan file; `on_round` is called with the reports of each.

    :param plan_file: in a folder of its own, where the query also keeps its checkpoint
    :param clusters: source and target; they travel pickled inside the task's code, never as a row
    """
    source = source_of(flow.name)
    spark.dataSource.register(source)
    shards = spark.readStream.format(source.name()).option("plan", str(plan_file)).load()
    reports = shards.mapInArrow(_round_function(*clusters, flow), "report string")

    def collect(batch: DataFrame, _round: int) -> None:
        on_round([ShardReport.from_json(row["report"]) for row in batch.collect()])

    return (
        reports.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(plan_file.parent / "checkpoint"))
        # Spark takes a name only once, and the query of the attempt before may not have ended yet.
        .queryName(f"drkit checkpoints {flow.name} {plan_file.parent}")
        .trigger(processingTime=f"{_look_ms(flow)} milliseconds")
        .start()
    )


def _look_ms(flow: FlowSettings) -> int:
    return max(_LEAST_MS, int(flow.checkpoint_interval_seconds * 1000) // _SHARE)


def run_round(
    spark: SparkSession,
    shards: Sequence[str],
    clusters: tuple[ClusterSettings, ClusterSettings],
    flow: FlowSettings,
) -> list[ShardReport]:
    """One round without a query, its shards side by side; blocking."""
    rows = spark.createDataFrame([(text,) for text in shards], SCHEMA)
    reports = rows.mapInArrow(_round_function(*clusters, flow), "report string")
    return [ShardReport.from_json(row["report"]) for row in reports.collect()]


def _round_function(
    source: ClusterSettings, target: ClusterSettings, flow: FlowSettings
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rounds(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("shard").to_pylist():
                report = checkpoint_task(source, target, flow).run(Shard.from_json(text))
                yield pa.RecordBatch.from_pydict({"report": [report.to_json()]})

    return rounds
