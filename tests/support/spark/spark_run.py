"""Runs Spark applications with Kafka sources, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
import hashlib
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any
import zipfile

import pyspark
from pyspark.java_gateway import launch_gateway

from drkit.local.jars import Module, classpath, default_cache
from drkit.local.java import find_java
from drkit.spark.class_archive import archive_option
from drkit.spark.jvm import QUICK_JVM

_ROOT = Path(__file__).parents[3]
_TOKENS = Path(__file__).parent / "delegation_tokens"
CONNECTOR = (
    # Works with Spark 4.2 and 4.3; of what it depends on, pyspark brings all but these.
    Module("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", alone=True),
    Module("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
    Module("org.apache.commons", "commons-pool2", "2.13.1", alone=True),
)


@cache
def connector() -> list[str]:
    """The jars of Spark's Kafka connector, fetched once like those of brokers, and its missing classes."""
    return [*classpath(modules=CONNECTOR).split(os.pathsep), str(_tokens())]


def _tokens() -> Path:
    """The classes that are missing: compiled once, and kept where the jars are."""
    sources = sorted(_TOKENS.glob("*.java"))
    digest = hashlib.sha256(pyspark.__version__.encode())
    for source in sources:
        digest.update(source.read_bytes())
    kept = default_cache() / "tests" / f"tokens-{digest.hexdigest()[:16]}.jar"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(made, "w") as archive:
            for name, code in compiled(sources).items():
                archive.writestr(name.replace(".", "/") + ".class", code)
        made.replace(kept)
    return kept


def compiled(sources: Iterable[Path]) -> dict[str, bytes]:
    """Class files by class, made by the compiler that Spark brings for its own queries: a JRE suffices."""
    gateway = launch_gateway()
    found: dict[str, bytes] = {}
    try:
        for source in sources:
            compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
            compiler.cook(source.name, source.read_text())
            found |= compiler.getBytecodes()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # its JVM ends with it
        gateway.proc.wait(30)
    return found


def run_spark(bootstrap: str, queries: list[dict[str, Any]], scratch: Path, **settings: str) -> int:
    """Run some queries to their ends; returns the exit code, -9 when one of them killed all."""
    scratch.mkdir(exist_ok=True)
    job = {
        "jars": connector(),
        "bootstrap": bootstrap,
        "scratch": str(scratch),
        "settings": {
            "spark.driver.extraJavaOptions": f"{QUICK_JVM} {archive_option(find_java())}",
            **settings,
        },
        "queries": queries,
    }
    log = scratch / "said.log"
    with log.open("wb") as said:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.spark.spark_app"],
            input=json.dumps(job).encode(),
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=_ROOT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(scratch)},
            timeout=240,
            check=False,
        )
    assert done.returncode in {0, -9}, log.read_text(errors="replace")[-3000:]
    return done.returncode
