"""Makes the archive of Spark's classes, once, with jobs that copy nothing.

``python -m drkit.spark.class_training``, which `make setup` runs;
see :mod:`drkit.spark.class_archive`.
"""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from drkit.atomic_file import replace_file
from drkit.errors import DrkitError, Failed
from drkit.local.file_lock import locked
from drkit.local.java import find_java
from drkit.private_file import is_private
from drkit.spark.class_archive import archive_place, command_place
from drkit.spark.jobs import SparkJobs
from drkit.spark.jvm import QUICK_JVM
from drkit.spark.session import SharedSpark, spark_session

_EPOCHS: Final = 2
_KEPT: Final = 3
"""Archives of other Sparks, as of virtual environments that may be gone by now: 70 MB each."""
_SECONDS: Final = 120.0
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_OURS: Final = ("-Xmx", "-Xlog:", "-XX:ArchiveClassesAtExit=", "-Dlog4j2.configurationFile=")


def make_archive() -> Path:
    """Make it unless it is there; half a minute.

    :raises ConfigError: no usable Java
    :raises Failed: Spark ended without writing it, or other users may write there
    """
    archive = archive_place(find_java())
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(archive.parent):
        raise Failed("cache_shared", where=str(archive.parent))
    with locked(archive.parent / "spark.lock"):
        if not (is_private(archive) and is_private(command_place(archive))):
            _train(archive)
    return archive


def _train(archive: Path) -> None:
    fresh = archive.with_suffix(".new")
    # What cannot be archived is listed in warnings by the hundred.
    options = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable"
    with spark_session("drkit class archive", 1, java_options=options) as workshop:
        gateway = workshop.context._gateway  # noqa: SLF001  the only way to its process
        process = getattr(gateway, "proc", None)
        if process is None:
            raise Failed("jvm_not_ours", where=str(archive))
        command = _command_of(process.pid)
        _use(workshop)
    process.stdin.close()  # the JVM ends when its standard input does, and writes the archive then
    process.wait(_SECONDS)
    if not fresh.exists():
        raise Failed("no_class_archive", where=str(archive))
    fresh.rename(archive)
    if command is not None:
        command_place(archive).unlink(missing_ok=True)  # others may write to it, by an earlier umask
        replace_file(command_place(archive), json.dumps(command).encode(), new_mode=0o644)
    for old in sorted(archive.parent.glob("spark-*.jsa"), key=lambda f: f.stat().st_mtime)[:-_KEPT]:
        old.unlink()
        command_place(old).unlink(missing_ok=True)


def _command_of(pid: int) -> list[str] | None:
    """The arguments that Spark's scripts give to its JVM, without drkit's, or None if they cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (OSError, UnicodeDecodeError):
        return None
    if _SUBMIT not in words:
        return None
    added = {*QUICK_JVM.split()}
    return [w for w in words[1 : words.index(_SUBMIT)] if w not in added and not w.startswith(_OURS)]


def _use(workshop: SharedSpark) -> None:
    jobs = SparkJobs(workshop, "class archive", "class_training_died", "class archive")
    for _ in range(_EPOCHS):
        jobs.run(["lease"], str)


def main() -> int:
    """Make the archive; returns 0 also after a failure, which is printed: the archive is optional."""
    try:
        make_archive()
    except (DrkitError, OSError, subprocess.SubprocessError, PySparkException, Py4JError) as error:
        sys.stderr.write(f"Spark will start without an archive of its classes: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
