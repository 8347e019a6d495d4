"""The Spark session of `drkit replicate` and `drkit verify`: small, quiet, refused when it cannot work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
import logging
import os
from pathlib import Path
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from typing import Any, Final, NamedTuple

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

import drkit
from drkit.clock import monotonic
from drkit.errors import ConfigError, Failed, Refused
from drkit.local.java import find_java
from drkit.replicate.class_archive import archive_option

TASK_RETRIES: Final = 4
BROKEN: Final = (Py4JError, PySparkException, OSError, AttributeError, AssertionError)
"""What a call to Spark raises; the last two where it was stopped meanwhile."""
_SLOT_WAIT_SECONDS: Final = 30.0
_SLOT_POLL_SECONDS: Final = 0.2
_START_POLL_SECONDS: Final = 0.05
_LOCAL: Final = re.compile(r"local(?:\[(?P<slots>\d+|\*)(?:,\s*(?P<retries>\d+))?\])?")
# Records never pass through the JVM: a quick start is worth more than optimised code.
_QUICK_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
_NO_LOOK_AROUND: Final = "none"
"""The JVM would start the Python of this name to search all installed packages for data sources: a second of
every start. Workers run the one of PYSPARK_PYTHON."""
_DAEMON: Final = "drkit.replicate.worker_daemon"
_NO_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Importing numpy and pyarrow begins threads, unless these say otherwise; the daemon forks only without."""
_NO_CURRENT_FOLDER: Final = {"PYTHONSAFEPATH": "1"}
"""Python would look for a daemon's modules in the folder where drkit was called, before any other."""
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


class Master(NamedTuple):
    """Where tasks run."""

    url: str
    slots: int | None
    """Tasks that can run at once; None when only the cluster itself knows."""


class Workshop:
    """Spark at work, or on its way, and a folder that lives as long as it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._context: SparkContext | None = None
        self._inner: Any = None
        self._is_there = threading.Event()

    @property
    def has_started(self) -> bool:
        """Whether there is a :attr:`context`."""
        return self._is_there.is_set()

    @property
    def context(self) -> SparkContext:
        """Spark, which has started."""
        assert self._context is not None, "Spark has not started"  # noqa: S101  a programming error
        return self._context

    def wait(self, stop: threading.Event) -> bool:
        """Whether Spark has started; waits for it until `stop` is set."""
        while not self._is_there.wait(_START_POLL_SECONDS):
            if stop.is_set():
                return False
        return True

    def started(self, context: SparkContext) -> None:
        """Let those go on who wait for Spark."""
        self._context, self._inner = context, context._jsc.sc()  # noqa: SLF001  no public way
        self._is_there.set()

    @property
    def has_ended(self) -> bool:
        """Whether Spark's JVM is gone, or has stopped Spark, as when it has no memory or no master."""
        try:
            return self.has_started and bool(self._inner.isStopped())
        except BROKEN:
            return True


def choose_master(url: str | None, tasks: int) -> Master:
    """The master URL to use, with retries switched on where Spark has them off.

    Local mode retries a failed task only when told so: ``local[N]`` becomes ``local[N,4]``.

    :param url: the user's choice; None runs in this process, one slot more than there are tasks
    :raises Refused: fewer slots than tasks: those without a slot would wait for ever
    """
    if url is None:
        return Master(f"local[{tasks + 1},{TASK_RETRIES}]", tasks + 1)
    match = _LOCAL.fullmatch(url)
    if match is None:
        return Master(url, None)
    asked = match["slots"] or "1"
    slots = (os.cpu_count() or 1) if asked == "*" else int(asked)
    _refuse_few_slots(url, slots, tasks)
    return Master(f"local[{asked},{match['retries'] or TASK_RETRIES}]", slots)


@contextmanager
def spark_session(
    name: str,
    tasks: int,
    master: str | None = None,
    memory: str = "512m",
    *,
    java_options: str | None = None,
    meanwhile: Callable[[Workshop], None] = lambda _workshop: None,
) -> Iterator[Workshop]:
    """A Spark session for so many tasks at once; stopped and cleaned up at the end.

    :param memory: heap of the driver, in Java's notation; copied data never passes through it
    :param java_options: for the driver's JVM, instead of those that make it use the archive of classes
    :param meanwhile: begins what can be done while Spark starts, and returns at once
    :raises ConfigError: no usable Java, or a master that Spark does not understand
    :raises Refused: fewer slots than tasks
    """
    chosen = choose_master(master, tasks)
    java = _require_java()
    folder = Path(tempfile.mkdtemp(prefix="drkit-spark-"))
    workshop = Workshop(folder)
    try:
        meanwhile(workshop)
        options = archive_option(java) if java_options is None else java_options
        context = _start(name, chosen.url, folder, memory, options)
        try:
            if chosen.slots is None:
                _refuse_few_slots(chosen.url, _cluster_slots(context, tasks), tasks)
            workshop.started(context)
            yield workshop
        finally:
            # Who ended all processes of our group has ended Spark's, too: there is nothing left to stop.
            with suppress(Py4JError, ConnectionError):
                context.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(name: str, master: str, folder: Path, memory: str, java_options: str) -> SparkContext:
    for variable, value in {**_NO_THREADS, **_NO_CURRENT_FOLDER}.items():
        os.environ.setdefault(variable, value)
    # The wrong interpreter shows only as "Python worker failed to connect back".
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = _NO_LOOK_AROUND
    # Workers import drkit even where it is not installed, as from a checkout.
    root = str(Path(drkit.__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(p for p in (root, *paths) if p))
    log4j = folder / "log4j2.properties"
    log4j.write_text(_QUIET_LOG4J, encoding="utf-8")
    conf = SparkConf().setMaster(master).setAppName(name)
    conf.setAll(list(_settings(folder, log4j, memory, java_options).items()))
    silence_py4j()
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=conf, gateway=_gateway(conf, folder / "spark.log"))
        _say_nothing_of_broken_connections(context)
    # While it starts, Spark has its own handler of Ctrl-C, which raises this.
    except KeyboardInterrupt:
        if callable(interrupt):
            interrupt(signal.SIGINT, None)
        raise Failed("Spark's start was interrupted", where=master) from None
    # pyspark raises plain RuntimeError and Py4J errors for a JVM that does not come up.
    except Exception as error:
        raise ConfigError(
            "Spark does not start",
            where=master,
            evidence=str(error).strip().splitlines()[0][:300] if str(error).strip() else repr(error),
            hint="check --master; Spark needs Java 17 or 21",
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            # Spark takes Ctrl-C to cancel its jobs; here it ends a flow in good order.
            signal.signal(signal.SIGINT, interrupt)
    return context


def silence_py4j() -> None:
    """Py4J tells as a traceback what ends with Spark: a call to a dead JVM.

    The end of a job is told by us. Part of what Py4J says goes to its own logger, part to the root logger.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _say_nothing_of_broken_connections(context: SparkContext) -> None:
    """Spark's server for accumulators prints a traceback when the JVM ends first, as by a signal to both."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda _request, _client: None


def _gateway(conf: SparkConf, log: Path) -> JavaGateway | None:
    """Start a JVM whose standard error is a file: ours is for drkit. None where there is one already.

    It has a session of its own: a signal to all processes of our group is for us, and we end Spark.
    """
    if SparkContext._gateway is not None:  # noqa: SLF001  pyspark keeps the JVM for as long as the process lives
        return None
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
        return launch_gateway(conf, {"stderr": file, "start_new_session": True})  # type: ignore[no-untyped-call]


def _settings(folder: Path, log4j: Path, memory: str, java_options: str) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.host": os.environ.get("SPARK_LOCAL_HOSTNAME", "localhost"),
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log4j.as_uri()} {_QUICK_JVM} {java_options}".strip()
        ),
        "spark.local.dir": str(folder / "local"),
        # A second copy of a task is harmless, and useless: it would wait for the same source.
        "spark.speculation": "false",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": _DAEMON,
        # Larger code of a task would become a file, with the secrets in it.
        "spark.broadcast.UDFCompressionThreshold": str(2**31 - 1),
        "spark.locality.wait": "0s",
        "spark.shuffle.service.enabled": "false",
        "spark.eventLog.enabled": "false",
    }


def _require_java() -> Path:
    try:
        return find_java()
    except ConfigError as error:
        raise ConfigError(
            "Spark needs Java 17 or newer, and it was not found",
            where=error.where,
            evidence=error.evidence or error.what,
            hint=error.hint,
        ) from error


def _cluster_slots(context: SparkContext, tasks: int) -> int:
    """Cores that executors have registered; they may need seconds to come."""
    deadline = monotonic() + _SLOT_WAIT_SECONDS
    tracker = context.statusTracker()
    slots = 0
    while monotonic() < deadline:
        # Coarse-grained schedulers report the sum of all executors' cores, but never less than two.
        executors = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001  no public way
        slots = int(context.defaultParallelism) if executors > 0 else 0
        if slots >= tasks:
            break
        tracker.getActiveStageIds()  # a cheap call that fails when the master is gone
        time.sleep(_SLOT_POLL_SECONDS)  # Spark tells about new executors only when asked
    return slots


def _refuse_few_slots(master: str, slots: int, tasks: int) -> None:
    if slots < tasks:
        raise Refused(
            "not enough Spark slots: every copy task holds one for as long as it runs",
            where=master,
            evidence=f"{slots} slots, {tasks} tasks",
            hint=f"give Spark {tasks} cores, or lower `tasks` of the flows",
        )
