"""A Spark query that goes to another cluster when the endpoint file says so, its checkpoint translated.

Run as a program; the job comes as JSON on the standard input, an event per line on the standard output. Of
drkit it uses the command line alone.
"""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys
import threading
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 0.1
_PAUSE = threading.Event()
"""Never set: Spark alone tells the application nothing of the file."""


def tell(kind: str, *words: object) -> None:
    print(int(time.time() * 1000), kind, *words, flush=True)  # noqa: T201 - its answers


def session(job: dict[str, Any]) -> SparkSession:
    settings = {
        "spark.jars": ",".join(job["jars"]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "localhost",
        "spark.local.dir": job["scratch"],
        "spark.sql.warehouse.dir": f"{job['scratch']}/warehouse",
    }
    builder = SparkSession.Builder().master("local[2]").appName("application")
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def started(spark: SparkSession, job: dict[str, Any], servers: str, checkpoint: Path) -> StreamingQuery:
    """The query on one of the clusters."""
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": job["topic"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200",
    }
    rows = (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
    )

    def write(batch: DataFrame, number: int) -> None:
        found = [row["value"] for row in batch.collect()]
        tell("B", servers, json.dumps({"batch": number, "values": found}))

    return rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint)).start()


def translated(job: dict[str, Any], checkpoint: Path, to: Path) -> bool:
    """Translate the checkpoint to the other cluster, as `drkit translate spark-checkpoint` does."""
    words = [
        "translate",
        "spark-checkpoint",
        str(checkpoint),
        "--out",
        str(to),
        "--config",
        job["config"],
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "drkit", *words], capture_output=True, text=True, check=False
    )
    tell("T", "-", done.returncode, done.stderr.replace("\n", " "))
    return done.returncode == 0


def main() -> None:
    job = json.load(sys.stdin)
    spark, file = session(job), Path(job["endpoint"])
    checkpoint = Path(job["scratch"], "checkpoint")
    while True:
        text = file.read_text(encoding="utf-8")
        servers = json.loads(text)["bootstrap_servers"]
        query = started(spark, job, servers, checkpoint)
        while file.read_text(encoding="utf-8") == text:
            _PAUSE.wait(_LOOK_SECONDS)
            if not query.isActive:
                tell("E", servers, str(query.exception()).replace("\n", " ")[:300])
                _PAUSE.wait(1.0)
                query = started(spark, job, servers, checkpoint)
        query.stop()
        tell("S", servers)
        following = checkpoint.with_name(checkpoint.name + "-next")
        while not translated(job, checkpoint, following):
            _PAUSE.wait(1.0)
        checkpoint = following


if __name__ == "__main__":
    main()
