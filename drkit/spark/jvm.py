"""Spark's JVM on this machine: launched before it is needed, and without Spark's scripts.

``spark-submit`` starts a shell, a JVM that composes a command, and then Spark's. That command was noted when
the archive of classes was made (:mod:`drkit.spark.class_training`), so a session on this machine starts
with it. `drkit replicate` launches the JVM first: it comes up while Python imports and looks at the clusters.
This module imports nothing that takes time.

Spark's own way, :func:`pyspark.java_gateway.launch_gateway`, remains where there is no archive, where files
or variables of the user speak to ``spark-submit``, and for a master elsewhere.
"""

from __future__ import annotations

import atexit
from contextlib import suppress
import json
import os
from pathlib import Path
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from typing import IO, Final, Self

import drkit
from drkit.errors import Failed
from drkit.local.java import java_on_path
from drkit.private_file import is_private
from drkit.spark.class_archive import archive_place, command_place, spark_home

MEMORY: Final = "512m"
"""Heap of the driver, in Java's notation; copied data never passes through it."""
QUICK_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
IMPORTS_WITHOUT_THREADS: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Importing numpy and pyarrow begins threads, unless these say otherwise; the daemon forks only without."""
NO_CURRENT_FOLDER: Final = {"PYTHONSAFEPATH": "1"}
"""Python would look for a daemon's modules in the folder where drkit was called, before any other."""
_MAIN: Final = "org.apache.spark.api.python.PythonGatewayServer"
_SPEAK_TO_SUBMIT: Final = ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "SPARK_TESTING")
_FILES_OF_SUBMIT: Final = ("conf/spark-env.sh", "conf/spark-defaults.conf")
_NO_LOOK_AROUND: Final = "none"
"""The JVM would start the Python of this name to search all installed packages for data sources: a second of
every start. Workers run the one of PYSPARK_PYTHON."""
_START_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.005
_LONGEST_FOLDER: Final = 39
"""A socket's path has at most 107 bytes: a session's folder adds 21 to that of temporary files, Spark 43."""
_SHORT_FOLDER: Final = "/tmp"  # noqa: S108  only for folders that mkdtemp makes, with mode 0700
_LOG4J: Final = "log4j2.properties"
_QUIET_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n
# A copy task that fails is named by drkit, with its cause and without a Java stack trace.
logger.noise.name = org.apache.spark
logger.noise.level = off
"""


class SparkJvm:
    """A starting JVM; Python speaks to it by a port and a secret that it writes into a file."""

    def __init__(self, java: Path, command: list[str], options: str) -> None:
        self.folder = make_folder()
        self.process: subprocess.Popen[bytes] | None = None
        self._address = self.folder / "gateway"
        self._arguments = [
            str(java), *command, f"-Xmx{MEMORY}", *jvm_options(self.folder, options).split(), _MAIN
        ]  # fmt: skip

    def launch(self) -> Self:
        """Start the process."""
        known = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address), "SPARK_CONNECT_MODE": "0"}
        with open_log(self.folder) as log:
            self.process = subprocess.Popen(  # noqa: S603  no shell; the command is Spark's own
                self._arguments,
                stdin=subprocess.PIPE,  # it ends when this does
                stderr=log,
                env={**os.environ, **known},
                start_new_session=True,  # drkit handles a signal to its process group, and ends Spark itself
            )
        return self

    def address(self) -> tuple[int, str]:
        """Wait for its port and its secret. Raises Failed if it ends, or does not start in time."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._address.exists():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                said = (self.folder / "spark.log").read_text(errors="replace").strip()
                raise Failed("jvm_not_started", evidence=said[:500])
            time.sleep(_POLL_SECONDS)
        data = self._address.read_bytes()
        self._address.unlink()
        port, size = struct.unpack_from("!ii", data)
        return port, data[8 : 8 + size].decode()

    def end(self) -> None:
        """Kill it and remove its files."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def launched(java: Path, options: str | None) -> SparkJvm | None:
    """A JVM that has been launched; None where Spark's own way is needed.

    :param options: of Java, instead of those that make it use the archive of classes
    """
    return jvm.launch() if (jvm := _composed(java, options)) is not None else None


def _composed(java: Path | None, options: str | None) -> SparkJvm | None:
    home = spark_home()
    if java is None or any(os.environ.get(name) for name in _SPEAK_TO_SUBMIT):
        return None
    if any((home / name).exists() for name in _FILES_OF_SUBMIT):
        return None
    archive = archive_place(java)
    noted = command_place(archive)
    if not (is_private(archive) and is_private(noted)) or any(c.isspace() for c in str(archive)):
        return None
    prepare_environment(sys.executable)
    used = f"-XX:SharedArchiveFile={archive}" if options is None else options
    return SparkJvm(java, json.loads(noted.read_text(encoding="utf-8")), used)


_early: list[SparkJvm] = []


def launch_early() -> None:
    """Launch the JVM of this process's session; it ends with the process where no session takes it."""
    jvm = _composed(java_on_path(), None)
    if jvm is not None:
        # A signal that ends this process while the JVM is launched finds it here.
        _early.append(jvm)
        atexit.register(end_early)
        jvm.launch()


def take_early() -> SparkJvm | None:
    """The JVM that was launched early; the caller ends it."""
    return _early.pop() if _early else None


def end_early() -> None:
    """End the JVM that was launched early, if no session has taken it."""
    while _early:
        _early.pop().end()


def make_folder() -> Path:
    """Make a private folder for one session of Spark and its sockets, with the configuration of its log."""
    is_short = len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_FOLDER
    folder = Path(tempfile.mkdtemp(prefix="drkit-spark-", dir=None if is_short else _SHORT_FOLDER))
    (folder / _LOG4J).write_text(_QUIET_LOG4J, encoding="utf-8")
    return folder


def jvm_options(folder: Path, options: str) -> str:
    """Java's options for Spark's JVM, without the heap size."""
    return f"-Dlog4j2.configurationFile={(folder / _LOG4J).as_uri()} {QUICK_JVM} {options}".strip()


def socket_settings(folder: Path) -> dict[str, str]:
    """Return Spark's settings that let Python's workers listen in this user's folder, not on a port.

    Spark's daemon forks a process for each connection to its port, before it asks for a secret.
    """
    sockets = "spark.python.unix.domain.socket"
    return {f"{sockets}.enabled": "true", f"{sockets}.dir": str(folder)}


def open_log(folder: Path) -> IO[bytes]:
    """A file for the JVM's standard error: the standard error of this process is for drkit."""
    return os.fdopen(os.open(folder / "spark.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def prepare_environment(python: str) -> None:
    """Set the variables that the JVM hands on to Spark's workers on this machine.

    :param python: the interpreter that they run
    """
    for variable, value in {**IMPORTS_WITHOUT_THREADS, **NO_CURRENT_FOLDER}.items():
        os.environ.setdefault(variable, value)
    # The wrong interpreter shows only as "Python worker failed to connect back".
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = _NO_LOOK_AROUND
    # Workers on this machine import drkit even where it is not installed, as from a checkout.
    root = str(Path(drkit.__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(p for p in (root, *paths) if p))
