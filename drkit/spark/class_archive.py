"""Where the archive of Spark's classes is, with which its JVM starts in half the time.

Half of the cost of a start of drkit is a JVM that reads, checks and interprets twenty thousand classes (8.6
of 17 CPU seconds; 4.4 with the archive). Class data sharing (JEP 350) maps them instead.
:mod:`drkit.spark.class_training` makes the archive; without one that fits, Spark starts as usual. Classes and
arguments of a JVM are code: files that another user could have written are not used.
"""

from __future__ import annotations

from importlib.util import find_spec
import os
from pathlib import Path

from drkit.errors import Failed
from drkit.local.jars import default_cache
from drkit.local.java import archive_identity
from drkit.private_file import is_private


def archive_place(java: Path) -> Path:
    """Return the path of the class archive for this Java and Spark; it may not exist yet."""
    name = archive_identity(java, sorted((spark_home() / "jars").glob("*.jar")))
    return default_cache() / "classes" / f"spark-jobs-{name}.jsa"


def spark_home() -> Path:
    """Return the folder of Spark without importing it. Raises Failed if Spark is not installed."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise Failed("pyspark_missing")
    return Path(found.origin).parent


def command_place(archive: Path) -> Path:
    """Path of the JVM's arguments with which an archive was made: a list in JSON, without drkit's own."""
    return archive.with_suffix(".json")


def archive_option(java: Path) -> str:
    """The JVM option that uses the archive; empty without an archive."""
    archive = archive_place(java)
    # Spark splits the options at spaces. "auto", the JVM's default: what does not fit is ignored.
    usable = is_private(archive) and not any(c.isspace() for c in str(archive))
    return f"-XX:SharedArchiveFile={archive}" if usable else ""
