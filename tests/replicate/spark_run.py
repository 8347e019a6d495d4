"""Runs Spark applications with Kafka sources, each in a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any
import zipfile

import pyspark
import pytest

from drkit.local.jars import Module, classpath
from drkit.local.java import find_java

_ROOT = Path(__file__).parents[2]
_TOKENS = Path(__file__).parent / "delegation_tokens"
CONNECTOR = (
    # Works with Spark 4.2 and 4.3; of what it depends on, pyspark brings all but these.
    Module("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", alone=True),
    Module("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
    Module("org.apache.commons", "commons-pool2", "2.13.1", alone=True),
)


def connector(scratch: Path) -> list[str]:
    """The jars of Spark's Kafka connector, fetched once like those of brokers, and its missing classes."""
    compiler = find_java().with_name("javac")
    if not compiler.exists():
        pytest.skip("a few classes must be compiled, which needs a JDK")
    jars = classpath(modules=CONNECTOR).split(os.pathsep)
    made = scratch / "classes"
    spark = Path(pyspark.__file__).parent / "jars"
    sources = [str(p) for p in sorted(_TOKENS.glob("*.java"))]
    subprocess.run([compiler, "-d", made, "-cp", f"{spark}/*", *sources], check=True, timeout=120)
    with zipfile.ZipFile(scratch / "tokens.jar", "w") as archive:
        for file in made.rglob("*.class"):
            archive.write(file, file.relative_to(made))
    return [*jars, str(scratch / "tokens.jar")]


def run_spark(bootstrap: str, queries: list[dict[str, Any]], scratch: Path, **settings: str) -> int:
    """Run some queries to their ends; returns the exit code, -9 when one of them killed all."""
    scratch.mkdir(exist_ok=True)
    job = {
        "jars": connector(scratch),
        "bootstrap": bootstrap,
        "scratch": str(scratch),
        "settings": settings,
        "queries": queries,
    }
    log = scratch / "said.log"
    with log.open("wb") as said:
        done = subprocess.run(
            [sys.executable, "-m", "tests.replicate.spark_app"],
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
