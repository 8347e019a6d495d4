"""Where the archive of Spark's classes is, with which its JVM starts in half the time.

Half of what a start of drkit costs is a JVM that reads, checks and interprets twenty thousand classes (8.6 of
17 CPU seconds; 4.4 with the archive). Class data sharing (JEP 350) maps them instead.
:mod:`drkit.replicate.class_training` makes the archive; where there is none, or one that does not fit, Spark
starts as ever.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from drkit.local.jars import default_cache
from drkit.local.java import archive_identity


def archive_place(java: Path) -> Path:
    """Where the archive for this Java and this Spark is, once it is made."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    name = archive_identity(java, sorted((home / "jars").glob("*.jar")))
    return default_cache() / "classes" / f"spark-jobs-{name}.jsa"


def archive_option(java: Path) -> str:
    """What the JVM is told to use it; empty where there is none."""
    archive = archive_place(java)
    # Spark splits the options at spaces. "auto", the JVM's default: what does not fit is ignored.
    usable = archive.exists() and not any(c.isspace() for c in str(archive))
    return f"-XX:SharedArchiveFile={archive}" if usable else ""
