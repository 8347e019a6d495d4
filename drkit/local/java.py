"""Find a Java that runs Kafka's brokers, or say what to install."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
import hashlib
import os
from pathlib import Path
import re
import shutil
import subprocess

from drkit.errors import ConfigError

OLDEST_JAVA = 17
"""Kafka 4 brokers need Java 17 (KIP-1013)."""


def find_java(env: Mapping[str, str] = os.environ) -> Path:
    """The ``java`` to use: ``JAVA_HOME`` first, as Spark does, else the search path.

    :raises ConfigError: no Java, one that does not start, or one older than 17
    """
    home, found = env.get("JAVA_HOME", ""), java_on_path(env)
    if found is None:
        raise ConfigError("no_java", where=f"JAVA_HOME={home}" if home else "PATH")
    version = _major_version(str(found), found.stat().st_mtime_ns)
    if version < OLDEST_JAVA:
        raise ConfigError(
            "java_too_old", where=str(found), evidence=f"Java {version}, Kafka 4 needs {OLDEST_JAVA}"
        )
    return found


def java_on_path(env: Mapping[str, str] = os.environ) -> Path | None:
    """The installed ``java``, of any version; None if there is no ``java``."""
    home = env.get("JAVA_HOME", "")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=env.get("PATH"))
    return Path(found) if found and Path(found).is_file() else None


def archive_identity(java: Path, jars: Iterable[Path]) -> str:
    """A name for the archive of classes (class data sharing, JEP 350) that fits this Java and these jars.

    The JVM checks name and time of every jar against the archive, so they are its identity, with the Java.

    :param jars: in the order of the class path
    """
    java = java.resolve()
    digest = hashlib.sha256(str(java).encode())
    release = java.parent.parent / "release"
    if release.exists():
        digest.update(release.read_bytes())
    for jar in jars:
        digest.update(f"{jar} {jar.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()[:24]


@cache
def _major_version(java: str, _changed: int) -> int:
    # Each cluster asks: a JVM to answer takes as long as a tenth of a broker's start.
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError("java_does_not_start", where=java, evidence=str(error)) from error
    said = done.stderr + done.stdout
    # Java 8 says "1.8.0_x", every later one says "17.0.15" or "24".
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        raise ConfigError("java_without_version", where=java, evidence=said[:200])
    return int(match.group(1))
