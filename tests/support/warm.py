"""Python programs of the tests as processes that begin at once.

To load drkit takes a process two seconds of a processor, and the tests start hundreds. So a parent has
everything loaded, and forks a child for each program. A child is a process like any other: with an id, files
and an exit code of its own, to be killed or frozen.

As a program this module is the parent. It gets programs through a socket, with the files for their
standard input, output and error, and a pipe into which it writes the id, and at the end the exit code.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import suppress
import gc
from importlib import import_module
import json
import os
from pathlib import Path
import selectors
import signal
import socket
import subprocess
import sys
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LOADED: Final = (
    "tests.support.flows.run_copy",
    "drkit.replicate.solo",
    "tests.support.replay.process",
    "tests.support.cli.forked",
    "drkit.cli.actions.config",
    "drkit.cli.actions.replicate",
    "drkit.cli.actions.status",
    "drkit.cli.actions.translate",
    "drkit.cli.actions.verify",
    "drkit.cli.render",
)
_STARTS_SECONDS: Final = 60.0
_LONGEST: Final = 1 << 16


class WarmProcess:
    """A running program, with what :class:`subprocess.Popen` says of one.

    :param module: one with a ``main``
    :param stdin: what the program reads from its standard input
    :param out: a file descriptor for its standard output and error
    """

    def __init__(self, module: str, *, stdin: bytes, out: int, err: int | None = None) -> None:
        self.returncode: int | None = None
        reads, writes = os.pipe()
        told, tells = os.pipe()
        self._told, self._unread = told, b""
        try:
            _parent().send(module, [reads, out, out if err is None else err, tells])
        finally:
            os.close(reads)
            os.close(tells)
        with os.fdopen(writes, "wb") as given:
            given.write(stdin)
        self.pid = int(self._line(_STARTS_SECONDS))

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        :raises subprocess.TimeoutExpired: it still runs
        """
        if self.returncode is None:
            self.returncode = int(self._line(timeout))
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs; its parent waits for it, so an id that has ended is gone."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _line(self, timeout: float | None) -> bytes:
        if b"\n" not in self._unread:
            if not _is_ready(self._told, timeout):
                raise subprocess.TimeoutExpired("a warm process", timeout or 0.0)
            # A line is written at once: it is shorter than what a pipe keeps together.
            self._unread += os.read(self._told, _LONGEST)
        line, newline, self._unread = self._unread.partition(b"\n")
        assert newline, "the parent of warm processes has ended"
        return line


def _is_ready(file: int, timeout: float | None) -> bool:
    """Not by `select`, which takes no file above 1023: each client of a test process has some."""
    with selectors.PollSelector() as watched:
        watched.register(file, selectors.EVENT_READ)
        return bool(watched.select(timeout))


class _Parent:
    """The parent, of one test process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                # Loaded, numpy would begin threads, and only a process without them is forked whole.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip

    def close(self) -> None:
        """End it, and what it has forked."""
        if self.owner == os.getpid():
            self._socket.close()
            self._process.wait(_STARTS_SECONDS)

    def send(self, module: str, files: Sequence[int]) -> None:
        """Ask for a program."""
        socket.send_fds(self._socket, [json.dumps({"module": module}).encode()], list(files))


_kept: list[_Parent] = []


def _parent() -> _Parent:
    if not _kept or _kept[0].owner != os.getpid():
        _kept[:] = [_Parent()]
        atexit.register(_kept[0].close)
    return _kept[0]


# -- in the parent ----------------------------------------------------------------------------------------


class _Forks:
    """What the parent keeps: the pipes of its children, by their ids."""

    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._pipes: dict[int, int] = {}
        self._ended, self._wakes = os.pipe()
        self._watched = selectors.PollSelector()
        for each in (self._asked.fileno(), self._ended):
            self._watched.register(each, selectors.EVENT_READ)
        os.set_blocking(self._wakes, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def serve(self) -> str:
        """Fork until the socket is closed; returns, in a child, the module that it is to run."""
        while True:
            ready = {key.fd for key, _ in self._watched.select()}
            if self._ended in ready:
                os.read(self._ended, _LONGEST)
                self._reap()
            if self._asked.fileno() in ready:
                message, files, _, _ = socket.recv_fds(self._asked, _LONGEST, 4)
                if not message:
                    self._end()
                if child := self._fork(json.loads(message), files):
                    return child

    def _fork(self, program: dict[str, Any], files: list[int]) -> str:
        pid = os.fork()
        if pid == 0:
            self._become(files)
            return str(program["module"])
        *others, tells = files
        for each in others:
            os.close(each)
        os.write(tells, f"{pid}\n".encode())
        self._pipes[pid] = tells
        return ""

    def _become(self, files: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
        for each in {*files, *self._pipes.values(), self._ended, self._wakes}:
            os.close(each)
        self._asked.close()

    def _reap(self) -> None:
        for pid in list(self._pipes):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                tells = self._pipes.pop(pid)
                with suppress(BrokenPipeError):  # the process that waited for it has ended
                    os.write(tells, f"{os.waitstatus_to_exitcode(status)}\n".encode())
                os.close(tells)

    def _end(self) -> None:
        for pid in self._pipes:
            os.kill(pid, signal.SIGKILL)
        sys.exit()


def main() -> None:
    for name in LOADED:
        import_module(name)
    gc.collect()
    gc.freeze()  # so that children share what is loaded
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        module = _Forks(asked).serve()
    sys.argv[:] = [module]
    import_module(module).main()


if __name__ == "__main__":
    main()
