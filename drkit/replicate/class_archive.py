"""Where the archive of Spark's classes is, with which its JVM starts in half the time.

Half of what a start of drkit costs is a JVM that reads, checks and interprets twenty thousand classes (8.6 of
17 CPU seconds; 4.4 with the archive). Class data sharing (JEP 350) maps them instead.
:mod:`drkit.replicate.class_training` makes the archive; where there is none, or one that does not fit, Spark
starts as ever.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

from drkit.local.jars import default_cache
from drkit.local.java import find_java


def archive_place() -> Path:
    """Where the archive for this Java and this Spark is, once it is made.

    The JVM compares the names and times of the jars with the archive's: with the Java they are its identity.

    :raises ConfigError: no usable Java
    """
    java = find_java().resolve()
    digest = hashlib.sha256(str(java).encode())
    release = java.parent.parent / "release"
    if release.exists():
        digest.update(release.read_bytes())
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    for jar in sorted((home / "jars").glob("*.jar")):
        digest.update(f"{jar} {jar.stat().st_mtime_ns}\n".encode())
    return default_cache() / "classes" / f"spark-{digest.hexdigest()[:24]}.jsa"


def archive_option() -> str:
    """What the JVM is told to use it; empty where there is none."""
    archive = archive_place()
    # Spark splits the options at spaces. "auto", the JVM's default: what does not fit is ignored.
    usable = archive.exists() and not any(c.isspace() for c in str(archive))
    return f"-XX:SharedArchiveFile={archive}" if usable else ""
