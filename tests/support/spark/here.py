"""drkit's commands in the process of the tests, on the JVM of Spark that it keeps.

A JVM for each command would cost six seconds of a processor. Where the start of Spark, or its end with the
process, is under test, the command needs a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
import io
import signal
import subprocess
from typing import Final

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkContext

from drkit.cli import main as cli

ON_THIS_JVM: Final = ("--master", "local[6]")
"""For `drkit replicate`, which otherwise launches a JVM of its own before it looks for one."""
_HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def drkit_here(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; the exit code, and what it wrote to standard output and standard error.

    No other session of Spark may be open.
    """
    out, said = io.StringIO(), io.StringIO()
    more = ON_THIS_JVM if "replicate" in words else ()
    with _as_if_alone(), redirect_stdout(out), redirect_stderr(said):
        try:
            code = cli.run([*words, *more])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), said.getvalue())


def end_jvm() -> None:
    """End the JVM of Spark that this process keeps: the next session starts another."""
    running: JavaGateway | None = SparkContext._gateway
    if running is not None:
        with suppress(Py4JError, OSError):
            running.shutdown()
        running.proc.kill()
        running.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _as_if_alone() -> Iterator[None]:
    """Afterwards no thread of the command runs, and signals have their former handlers."""
    before = {number: signal.getsignal(number) for number in _HEARD}
    try:
        yield
    finally:
        asked_to_stop = signal.getsignal(signal.SIGTERM)
        if callable(asked_to_stop) and asked_to_stop is not before[signal.SIGTERM]:
            asked_to_stop(signal.SIGTERM, None)  # what it began beside would wait for it for ever
        for number, handler in before.items():
            signal.signal(number, handler)
