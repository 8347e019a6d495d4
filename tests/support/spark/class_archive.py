"""The archive of Spark's classes that `make` prepares: with it each JVM of a test starts in half the time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from drkit.local.java import find_java
from drkit.spark.class_archive import archive_option, archive_place, command_place
from tests.support.spark.worker_python import SPARK_HOME


@pytest.fixture(scope="session", autouse=True)
def _class_archive() -> None:
    """Made again where it is missing: only those that were made last are kept, of all Sparks of a machine."""
    archive = archive_place(find_java())
    if not (archive.exists() and command_place(archive).exists()):
        subprocess.run([sys.executable, "-m", "drkit.spark.class_training"], check=True, timeout=300)


def class_path() -> list[str]:
    """Java's arguments for a JVM with Spark's classes: with the archive if there is one."""
    java = find_java()
    noted = command_place(archive_place(java))
    if not (option := archive_option(java)) or not noted.exists():
        return ["-cp", f"{SPARK_HOME}/jars/*"]
    return [*json.loads(noted.read_text()), option]
