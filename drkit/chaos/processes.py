"""Child processes of a scenario: commands of drkit that wait at each journal entry, replicators and clients.

A parent process, :mod:`drkit.chaos.orchestrator`, forks a child for each of them. A child connects to the
scenario's socket and reports in JSON, line by line; a command waits for leave at each entry. All children die
with their parent, and the parent with the process that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
import json
import os
from pathlib import Path
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Final, NamedTuple, Self

from drkit.clock import monotonic
from drkit.errors import Failed

MODULE: Final = "drkit.chaos.orchestrator"
_CALL_SECONDS: Final = 150.0
_LONG_FOLDER: Final = 80
_START_SECONDS: Final = 120.0
"""For the first child, the parent has to load everything: on a busy machine that takes a while."""
_POLL_SECONDS: Final = 0.05


BEFORE, IN_FILE, AFTER = BOUNDARIES = ("before", "file", "after")
"""When a command waits: before an entry is written, when it is in the file only, when it is in the topic."""


class JournalPosition(NamedTuple):
    """An entry of a run's journal."""

    kind: str
    step: str
    effect: str
    boundary: str = AFTER


class CommandResult(NamedTuple):
    """How a command ended."""

    words: tuple[str, ...]
    code: int | None
    """None if the process was killed."""
    out: str = ""
    err: str = ""

    @property
    def error(self) -> dict[str, Any]:
        """The error that `--json` printed; empty if it did not fail with one."""
        start = self.err.find("{\n")
        error: dict[str, Any] = json.loads(self.err[start:]) if self.code and start >= 0 else {}
        return error

    @property
    def answer(self) -> dict[str, Any]:
        """The answer that `--json` printed; empty if there is none."""
        answer = json.loads(self.out) if self.out.lstrip().startswith("{") else {}
        return dict(answer)


class Child:
    """A child process; one that runs a command waits for leave at each entry of its journal."""

    def __init__(self, words: tuple[str, ...], connection: socket.socket) -> None:
        connection.settimeout(_CALL_SECONDS)
        self._words, self._lines = words, connection.makefile("rw", encoding="utf-8")
        connection.close()
        self.pid = int(self._receive().get("pid", 0))
        if not self.pid:
            raise BrokenPipeError("it has ended at once")
        self.run, self.table = "", ""
        """The run, and the name of its table, of the newest entry."""
        self.slept = 0.0
        """Seconds by which its clocks advance when it continues, as after a suspension."""
        self.result: CommandResult | None = None

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError as error:
            raise Failed(
                "no_journal_entry_in_time",
                where=f"process {self.pid}: {self._words}",
                evidence=f"{_CALL_SECONDS:.0f} s",
            ) from error
        return dict(json.loads(line)) if line else {}

    def next_entry(self) -> JournalPosition | None:
        """Return the next entry, at which the process waits; None when it has ended."""
        message = self._receive()
        if "entry" in message:
            self.run, self.table = message["run"], message["table"]
            return JournalPosition(*message["entry"])
        self.result = CommandResult(self._words, *message.get("ended", (None,)))
        self._lines.close()
        return None

    def proceed(self) -> None:
        """Let it continue, unless it has ended."""
        if self.result is None:
            self._lines.write(json.dumps({"slept": self.slept}) + "\n")
            self._lines.flush()
            self.slept = 0.0

    def run_until(self, is_wanted: Callable[[JournalPosition], bool]) -> JournalPosition | None:
        """Return the first wanted entry, at which the process waits; None if it ended before."""
        while (position := self.next_entry()) is not None and not is_wanted(position):
            self.proceed()
        return position

    def finish(self) -> CommandResult:
        """Let it run to its end."""
        self.run_until(lambda _: False)
        return self.ended()

    def kill(self) -> CommandResult:
        """Send SIGKILL and wait for the end."""
        self.signal(signal.SIGKILL)
        while self.next_entry() is not None:
            pass
        return self.ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.result is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def was_killed(self) -> bool:
        """Return whether the process has ended without saying so; what it said before is read."""
        if self.result is None:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                while self.next_entry() is not None:
                    pass
        return self.result is not None and self.result.code is None

    def end_before(self, deadline: float) -> None:
        """Wait for the end of a process that got SIGTERM; kill it at the deadline (a monotonic time)."""
        with suppress(ProcessLookupError):
            while True:
                os.kill(self.pid, signal.SIGKILL if monotonic() > deadline else 0)
                time.sleep(_POLL_SECONDS)
        self.result = CommandResult(self._words, None)

    def ended(self) -> CommandResult:
        """Return how it ended."""
        if self.result is None:
            raise Failed("child_not_ended", where=f"process {self.pid}")
        return self.result


class ProcessParent:
    """The parent of all child processes of a scenario; use it in a ``with``.

    :param module: the module that runs as the parent
    """

    def __init__(self, module: str = MODULE) -> None:
        self._module = module

    def __enter__(self) -> Self:
        # The name of a socket has at most 107 characters.
        root = "/tmp" if len(tempfile.gettempdir()) > _LONG_FOLDER else None  # noqa: S108  its owner alone reads it
        self._folder = tempfile.mkdtemp(prefix="drkit-chaos-", dir=root)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"{self._folder}/s")
        self._socket.listen()
        self._socket.settimeout(_POLL_SECONDS)
        # In a group of its own: a Ctrl-C of the terminal is for the scenario's process alone.
        self._parent = subprocess.Popen(  # noqa: S603  our own program
            [sys.executable, "-m", self._module, f"{self._folder}/s"], stdin=subprocess.PIPE, process_group=0
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.kill()  # its children die with it
        self._parent.wait()
        if self._parent.stdin is not None:
            with suppress(BrokenPipeError):  # a command is in the buffer
                self._parent.stdin.close()
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def is_alive(self) -> bool:
        """Return whether the parent lives; its children die with it."""
        return self._parent.poll() is None

    def run_command(self, config: Path, *words: str, elsewhere: bool = False) -> Child:
        """Start a command; ``--json`` is added.

        :param elsewhere: on a machine that cannot see the processes of this one
        """
        typed = ["--config", str(config), *words, "--json"]
        return self._fork(words, typed=typed, journal={"elsewhere": elsewhere})

    def start_replicator(self, settings: Mapping[str, Any] | Path, flow: str, log: Path) -> Child:
        """Start a replicator without Spark, which never waits for leave.

        :param settings: the configuration as plain data, or its file
        :param flow: the name of the flow; empty: the first one
        """
        given = str(settings) if isinstance(settings, Path) else settings
        return self._fork(("drkit", "replicate"), settings=given, flow=flow, log=str(log))

    def start_failover(
        self,
        settings: Mapping[str, Any],
        log: Path,
        *,
        call: str = "begin",
        boundaries: Sequence[str] = (AFTER,),
        elsewhere: bool = False,
        **arguments: Any,
    ) -> Child:
        """Start a call of the first flow's failover service.

        :param settings: the configuration as plain data
        :param call: the method of :class:`FailoverService`, with its `arguments` as plain data
        :param boundaries: of its journal's entries, at which it waits for leave
        """
        command = {"settings": settings, "log": str(log), "call": call, "arguments": arguments}
        journal = {"elsewhere": elsewhere, "boundaries": boundaries}
        return self._fork(("drkit", "failover"), **command, journal=journal)

    def start_client(self, client: Mapping[str, Any], log: Path) -> Child:
        """Start a client of :mod:`drkit.chaos.clients`, which works until SIGTERM."""
        return self._fork((str(client["kind"]),), client=client, log=str(log))

    def _fork(self, words: tuple[str, ...], **command: Any) -> Child:
        if self._parent.stdin is None:
            raise Failed("no_parent_pipe")
        try:
            self._parent.stdin.write(json.dumps(command).encode() + b"\n")
            self._parent.stdin.flush()
            return Child(words, self._accepted())
        except (OSError, TimeoutError) as error:
            raise Failed("child_not_started", evidence=repr(error)) from error

    def _accepted(self) -> socket.socket:
        """Return the connection of the next child, which comes while the parent lives. Raises OSError."""
        deadline = monotonic() + _START_SECONDS
        while True:
            try:
                return self._socket.accept()[0]
            except TimeoutError:
                if not self.is_alive():
                    raise BrokenPipeError("the parent of all processes was killed") from None
                if monotonic() >= deadline:
                    raise
