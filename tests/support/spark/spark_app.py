"""A Spark application with Kafka sources, as its users have it: queries that are started, stopped or killed.

Run as a program; the job comes as JSON on the standard input. Knows nothing of drkit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
import signal
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_COLUMNS = ("topic", "partition", "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")


class Application:
    """The queries of one job, run one after the other against one cluster."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        builder = SparkSession.Builder().master("local[2]").appName("application")
        settings = {
            "spark.jars": ",".join(job["jars"]),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            # A handful of rows in each batch: to plan and compile more would cost more.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
            "spark.driver.memory": "512m",
            "spark.driver.host": "localhost",
            "spark.local.dir": job["scratch"],
            "spark.sql.warehouse.dir": f"{job['scratch']}/warehouse",
            **job.get("settings", {}),
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def kafka(self, topics: str, most: int) -> DataFrame:
        """A Kafka source, with at most `most` offsets in a batch."""
        options = {
            "kafka.bootstrap.servers": self.job["bootstrap"],
            "kafka.isolation.level": "read_committed",
            "subscribe": topics,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(most),
        }
        return self.spark.readStream.format("kafka").options(**options).load().selectExpr(*_COLUMNS)

    def records(self, folder: Path, query: dict[str, Any]) -> StreamingQuery:
        """Every record into files, exactly once by Spark's own file sink; offsets in the newer format."""
        self.spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
        rows = self.kafka(query["topics"][0], query["most"])
        out = rows.writeStream.format("json").option("path", str(folder / "out"))
        return out.option("checkpointLocation", query["checkpoint"]).trigger(availableNow=True).start()

    def totals(self, folder: Path, query: dict[str, Any]) -> StreamingQuery:
        """The number of records of each key from all sources: kept as state, written in full each time."""

        def write(totals: DataFrame, _batch: int) -> None:
            counts = {row["key"]: row["count"] for row in totals.collect()}
            (folder / "totals.json").write_text(json.dumps(counts))

        self.spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "1")
        rows = self.kafka(query["topics"][0], query["most"]).select("key")
        for topic in query["topics"][1:]:
            rows = rows.union(self.kafka(topic, query["most"]).select("key"))
        files = self.spark.readStream.text(query["files"]).selectExpr("value AS key")
        counts = rows.union(files).groupBy("key").count()
        out = counts.writeStream.outputMode("complete").foreachBatch(write)
        return out.option("checkpointLocation", query["checkpoint"]).trigger(availableNow=True).start()

    def killed(self, folder: Path, query: dict[str, Any]) -> StreamingQuery:
        """Every record into a file of its batch; in the middle of one of them everything ends."""

        def write(rows: DataFrame, batch: int) -> None:
            found = [row.asDict() for row in rows.collect()]
            if batch == query.get("dies_in"):
                (folder / "planned.json").write_text(json.dumps(found))
                os.kill(os.getpid(), signal.SIGKILL)
            (folder / f"batch-{batch}.json").write_text(json.dumps(found))

        out = self.kafka(query["topics"][0], query["most"]).writeStream.foreachBatch(write)
        return out.option("checkpointLocation", query["checkpoint"]).trigger(availableNow=True).start()


def main() -> None:
    """Run the job."""
    job = json.load(sys.stdin)
    application = Application(job)
    for query in job["queries"]:
        folder = Path(query["folder"])
        folder.mkdir(exist_ok=True)
        running: StreamingQuery = getattr(application, query["kind"])(folder, query)
        assert running.awaitTermination(120), f"{query['kind']} does not end"
    application.spark.stop()


if __name__ == "__main__":
    main()
