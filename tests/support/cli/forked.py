"""drkit's command in a process of its own that has everything loaded from its first moment.

For tests of what a command does and says, and how it ends. Where its start is tested, start
``python -m drkit`` instead: that takes more than a second of a processor.
"""

from __future__ import annotations

from collections.abc import Mapping
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
from typing import IO, Any, Self

from drkit.cli.main import main as drkit_main
from tests.support.warm import WarmProcess


class Forked:
    """A running command, with what :class:`subprocess.Popen` says of one.

    :param said: a file for its standard error; without one :meth:`communicate` returns it
    :param environ: variables beside those of this process
    """

    def __init__(
        self, *words: str, said: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.words = words
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._said: IO[bytes] = tempfile.TemporaryFile() if said is None else said.open("w+b")  # noqa: SIM115
        job = {"words": words, "environ": {**os.environ, **(environ or {})}, "folder": str(Path.cwd())}
        self._process = WarmProcess(
            __name__, stdin=json.dumps(job).encode(), out=self._out.fileno(), err=self._said.fileno()
        )
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None until a call has seen the end of the process."""
        return self._process.returncode

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code."""
        return self._process.wait(timeout)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; returns what it wrote to standard output and to standard error."""
        self.wait(timeout)
        return _text(self._out), _text(self._said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait(30)
        self._out.close()
        self._said.close()


def _text(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


def drkit(
    *words: str, seconds: float = 120, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as :func:`subprocess.run` does.

    :param environ: variables beside those of this process
    """
    with Forked(*words, environ=environ) as process:
        out, said = process.communicate(seconds)
    return subprocess.CompletedProcess(words, process.wait(), out, said)


def main() -> None:
    """Become the command."""
    job: dict[str, Any] = json.load(sys.stdin)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.environ.clear()
    os.environ.update(job["environ"])
    os.chdir(job["folder"])
    drkit_main(job["words"])
