"""Child processes of a scenario: commands of drkit that wait at each journal entry, replicators and clients.

A parent, which is this module run as a program, has everything loaded: a child that it forks starts at once.
It is sent a socket for each child. On that the child reads what to do, reports in JSON, line by line, and
waits for leave. Children die with their parent, and the parent with the process that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
import ctypes
from importlib import import_module
import io
import json
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import time
import traceback
from typing import Any, Final, NamedTuple, Self

from drkit.chaos.clients import run_client
from drkit.config import Settings, load
from drkit.errors import DrkitError, Failed
from drkit.failover.core.request import RunRequest
from drkit.failover.runs import Runs
from drkit.failover.service import FailoverService
from drkit.journal.entries import JournalEntry
from drkit.journal.journal import Journal
from drkit.local.process import ProcessIdentity
from drkit.replicate.solo import SoloReplicator

MODULE: Final = "drkit.chaos.processes"
BEFORE, IN_FILE, AFTER = BOUNDARIES = ("before", "file", "after")
"""Times to wait: before an entry is written, when it is in the file only, when it is in the topic."""
_CALL_SECONDS: Final = 150.0
"""For the first child, the parent has to load everything: on a busy machine that takes a while."""
_COMMAND_LINE: Final = "drkit.cli.main"
_ACTIONS: Final = ("failover", "fence", "status", "divergence", "back.reprotect", "back.failback")
"""Commands that no child has to load."""
_PR_SET_PDEATHSIG: Final = 1


class JournalPosition(NamedTuple):
    """An entry of a run's journal."""

    kind: str
    step: str
    effect: str
    boundary: str = AFTER


class CommandResult(NamedTuple):
    """The end of a command."""

    words: tuple[str, ...]
    code: int | None
    """None if the process was killed."""
    out: str = ""
    err: str = ""

    @property
    def error(self) -> dict[str, Any]:
        """The error that `--json` printed; empty if it did not fail with one."""
        start = self.err.find("{\n")
        return dict(json.loads(self.err[start:])) if self.code and start >= 0 else {}

    @property
    def answer(self) -> dict[str, Any]:
        """The answer that `--json` printed; empty if there is none."""
        return dict(json.loads(self.out)) if self.out.lstrip().startswith("{") else {}


# -- the side of the scenario -------------------------------------------------------------------------------


class Child:
    """A child process; one that runs a command waits for leave at each entry of its journal."""

    def __init__(self, words: tuple[str, ...], connection: socket.socket, command: Mapping[str, Any]) -> None:
        connection.settimeout(_CALL_SECONDS)
        self._words, self._lines = words, connection.makefile("rw", encoding="utf-8")
        self.pid = 0
        _send(self._lines, command)
        self.pid = int(self._receive().get("pid", 0))
        if not self.pid:
            raise BrokenPipeError("it has ended at once")
        self._process = ProcessIdentity.of(self.pid)
        self.run, self.table = "", ""
        """The run, and the name of its table, of the newest entry."""
        self.slept = 0.0
        """Seconds by which its clocks advance when it continues, as after a suspension."""
        self.result: CommandResult | None = None

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError as error:
            where, evidence = f"process {self.pid}: {self._words}", f"{_CALL_SECONDS:.0f} s"
            raise Failed("no_journal_entry_in_time", where=where, evidence=evidence) from error
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
            _send(self._lines, {"slept": self.slept})
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
        return self._drain()

    def _drain(self) -> CommandResult:
        while self.next_entry() is not None:
            pass
        return self.ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.result is None:
            self._process.signal(number)

    def was_killed(self) -> bool:
        """Return whether the process has ended without saying so; what it said before is read."""
        if self.result is None and not Path(f"/proc/{self.pid}").exists():
            self._drain()
        return self.result is not None and self.result.code is None

    def end_before(self, deadline: float) -> None:
        """Wait for the end of a process that got SIGTERM; kill it at the deadline (a monotonic time)."""
        if not self._process.wait_ended(deadline):
            self.signal(signal.SIGKILL)
            self._process.wait_ended(deadline + _CALL_SECONDS)
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
        self._control, child_socket = socket.socketpair()
        with child_socket:
            # In a group of its own: a Ctrl-C of the terminal is for the scenario's process alone.
            self._parent = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-m", self._module], stdin=child_socket.fileno(), process_group=0
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.kill()  # its children die with it
        self._parent.wait()
        self._control.close()

    def is_alive(self) -> bool:
        """Return whether the parent lives; its children die with it."""
        return self._parent.poll() is None

    def run_command(self, config: Path, *words: str, elsewhere: bool = False) -> Child:
        """Start a command; ``--json`` is added.

        :param elsewhere: on a machine that cannot see the processes of this one
        """
        typed = ["--config", config, *words, "--json"]
        return self._fork(words, "command", typed=typed, journal={"elsewhere": elsewhere})

    def start_replicator(self, settings: Mapping[str, Any] | Path, flow: str, log: Path) -> Child:
        """Start a replicator without Spark, which never waits for leave.

        :param settings: the configuration as plain data, or its file
        :param flow: the name of the flow, or "" for the first one
        """
        return self._fork(("drkit", "replicate"), "replicate", settings=settings, flow=flow, log=log)

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
        command = {"settings": settings, "log": log, "call": call, "arguments": arguments}
        journal = {"elsewhere": elsewhere, "boundaries": boundaries}
        return self._fork(("drkit", "failover"), "service", **command, journal=journal)

    def start_client(self, client: Mapping[str, Any], log: Path) -> Child:
        """Start a client of :mod:`drkit.chaos.clients`, which works until SIGTERM."""
        return self._fork((str(client["kind"]),), "client", client=client, log=log)

    def _fork(self, words: tuple[str, ...], work: str, **command: Any) -> Child:
        connection, child_socket = socket.socketpair()
        with connection:
            try:
                with child_socket:
                    socket.send_fds(self._control, [b"."], [child_socket.fileno()])
                return Child(words, connection, {"work": work, **command})
            except OSError as error:
                raise Failed("child_not_started", evidence=repr(error)) from error


# -- the side of the children -------------------------------------------------------------------------------


class PausingJournal(Journal):
    """A journal whose process waits for leave at boundaries of its entries."""

    lines: Any = None
    elsewhere = False
    """True if the process pretends to be on a machine that cannot be seen from here."""
    boundaries: Sequence[str] = (AFTER,)

    def _holder(self) -> dict[str, Any]:
        return super()._holder() | ({"host": "another-machine"} if self.elsewhere else {})

    def _to_file(self, entry: JournalEntry) -> None:
        self._wait(BEFORE, entry)
        super()._to_file(entry)
        self._wait(IN_FILE, entry)

    def _to_topic(self, entry: JournalEntry) -> None:
        super()._to_topic(entry)
        self._wait(AFTER, entry)

    def _wait(self, boundary: str, entry: JournalEntry) -> None:
        if boundary not in self.boundaries:
            return
        position = JournalPosition(entry.kind, entry.step or "", entry.effect, boundary)
        # Before the first entry is in the topic, the run has no table yet.
        table = self.run.table.name if boundary == AFTER else ""
        _send(self.lines, {"entry": position, "run": entry.run_id, "table": table})
        if slept := json.loads(self.lines.readline())["slept"]:
            _advance_clocks(slept)


def _send(lines: Any, message: Mapping[str, Any]) -> None:
    lines.write(json.dumps(message, default=str) + "\n")  # paths, as text
    lines.flush()


def _advance_clocks(seconds: float) -> None:
    """Set this process's clocks forward, as after a suspension."""
    monotonic, any_clock = time.monotonic, time.clock_gettime
    time.monotonic = lambda: monotonic() + seconds
    time.clock_gettime = lambda clock: any_clock(clock) + seconds


def run_drkit(typed: Sequence[str]) -> tuple[int, str, str]:
    """Run a command of drkit; return its exit code and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = import_module(_COMMAND_LINE).run([*typed])
    return code, out.getvalue(), err.getvalue()


def _run_service(settings: Settings, call: str, arguments: Mapping[str, Any]) -> tuple[int, str, str]:
    """Call the failover service of the first flow; return what a command with ``--json`` would."""
    read = {n: RunRequest.from_json(v) if isinstance(v, dict) else v for n, v in arguments.items()}
    try:
        with FailoverService(settings, settings.flows[0]) as service:
            return 0, json.dumps(getattr(service, call)(**read)), ""
    except DrkitError as error:
        return error.exit_code, "", json.dumps({**error.as_dict(), "kind": type(error).__name__}, indent=1)


def _work(work: str, command: Mapping[str, Any]) -> tuple[Any, ...]:
    """Do what a child is for; return how it ended: an exit code, and what a command prints."""
    if "log" in command:
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
    if work == "client":
        run_client(**command["client"])
        return (0,)
    if work == "command":
        return run_drkit(command["typed"])
    given = command["settings"]
    settings = load(Path(given)) if isinstance(given, str) else Settings.model_validate(given)
    if work == "service":
        return _run_service(settings, command["call"], command["arguments"])
    flow = settings.one_flow(command["flow"]) if command["flow"] else settings.flows[0]
    SoloReplicator(settings, flow).run()
    return (0,)


def _run_child(descriptor: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the scenario's own process ends its children
    ended: tuple[Any, ...] = (1,)
    lines = socket.socket(fileno=descriptor).makefile("rw", encoding="utf-8")
    try:
        command = json.loads(lines.readline())
        _send(lines, {"pid": os.getpid()})
        PausingJournal.lines, Runs.journal_class = lines, PausingJournal
        for name, value in command.pop("journal", {}).items():
            setattr(PausingJournal, name, value)
        ended = _work(command.pop("work"), command)
    except SystemExit as end:
        ended = (end.code if isinstance(end.code, int) else 0,)
    except BaseException:  # noqa: BLE001  the child ends here in any case, and its log shows why
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        with suppress(OSError):  # the scenario may have closed it
            _send(lines, {"ended": ended})
        os._exit(int(ended[0]))


def main() -> None:
    """Fork a child for each socket that arrives on standard input, until its end."""
    import_module(_COMMAND_LINE)
    for name in _ACTIONS:
        import_module(f"drkit.cli.actions.{name}")
    # No ended child remains as a zombie, which would look alive.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=sys.stdin.fileno())
    while descriptors := socket.recv_fds(control, 1, 1)[1]:
        if os.fork() == 0:
            _run_child(*descriptors)
        os.close(*descriptors)


if __name__ == "__main__":
    main()
