"""Child processes of a scenario: commands of drkit that wait at each journal entry, replicators and clients.

A parent, which runs :func:`main`, has everything loaded: a child that it forks starts at once. It is sent a
connection for each child, on which the child receives what to do, reports, and waits for leave. Children die
with their parent, and the parent with the process that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
import ctypes
from dataclasses import dataclass
from importlib import import_module
import io
import json
from multiprocessing.connection import Connection, Pipe
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import traceback
from typing import Any, ClassVar, Final, Self

from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.copy_task.report import TaskReport
from drkit.errors import DrkitError, Failed
from drkit.exercise.clients import run_client
from drkit.exercise.events import HISTORY, CommandEnded, CopyEnded, JournalEntered, Recorder
from drkit.failover.core.request import RunRequest
from drkit.failover.runs import Runs
from drkit.failover.service import FailoverService
from drkit.journal.entries import JournalEntry
from drkit.journal.journal import Journal
from drkit.local.process import ProcessIdentity
from drkit.replicate.solo import SoloReplicator

MODULE: Final = "drkit.exercise.processes"
_CALL_SECONDS: Final = 150.0
"""For the first child, the parent has to load everything: on a busy machine that takes a while."""
_COMMAND_LINE: Final = "drkit.cli.main"
_ACTIONS: Final = ("failover", "fence", "status", "divergence", "back.reprotect", "back.failback")
"""Commands that no child has to load."""
_PR_SET_PDEATHSIG: Final = 1
_FENCED: Final = ("InvalidProducerEpochError", "this flow's producer was fenced")


class Child:
    """A child process; one that runs a command waits for leave at each entry of its journal."""

    def __init__(self, words: tuple[str, ...], connection: Connection, command: Mapping[str, Any]) -> None:
        self.words, self._connection, self._began = words, connection, monotonic()
        connection.send(command)
        self.pid = int(self._receive().get("pid", 0))
        if not self.pid:
            raise BrokenPipeError("it has ended at once")
        self._process = ProcessIdentity.of(self.pid)
        self.result: CommandEnded | None = None
        self.printed = ""
        """The standard error of a command that has ended."""

    def _receive(self) -> dict[str, Any]:
        if not self._connection.poll(_CALL_SECONDS):
            where, evidence = f"process {self.pid}: {self.words}", f"{_CALL_SECONDS:.0f} s"
            raise Failed("no_journal_entry_in_time", where=where, evidence=evidence)
        try:
            return dict(self._connection.recv())
        except (EOFError, OSError):  # OSError: it was killed while it sent
            return {}

    def next_entry(self) -> JournalEntered | None:
        """Return the next entry, at which the process waits; None when it has ended."""
        if self.result is not None:
            return None
        message = self._receive()
        if "entry" in message:
            entry: JournalEntered = message["entry"]
            return entry
        self._end(*message.get("ended", (None,)))
        return None

    def _end(self, code: int | None, out: str = "", err: str = "") -> None:
        """Note how it ended, with the answer or the first error that ``--json`` printed."""
        read, begin = json.JSONDecoder().raw_decode, err.find("{\n")
        error = read(err, begin)[0] if code and begin >= 0 else {}
        answer = read(out)[0] if out.startswith("{") else {}
        self.printed = err
        self.result = CommandEnded([*self.words], code, [0], error, answer, self._began)
        self._connection.close()

    def proceed(self, leave: object = None) -> None:
        """Let it continue, unless it has ended; its :meth:`PausingJournal.wait_at` returns `leave`."""
        if self.result is None:
            self._connection.send(leave)

    def kill(self) -> CommandEnded:
        """Send SIGKILL and wait for the end."""
        self.signal(signal.SIGKILL)
        while self.next_entry() is not None:
            pass
        return self.ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.result is None:
            self._process.signal(number)

    def has_ended(self) -> bool:
        """Return whether the process has ended; what it said before is read."""
        if self.result is None and not self._process.alive:
            self.kill()
        return self.result is not None

    def was_killed(self) -> bool:
        """Return whether the process has ended without saying so."""
        return self.has_ended() and self.ended().code is None

    def end_before(self, deadline: float) -> bool:
        """Return whether a process that got SIGTERM ends by a monotonic time; if not, it is killed then."""
        if not (has_ended := self._process.wait_ended(deadline)):
            self.signal(signal.SIGKILL)
            self._process.wait_ended(deadline + _CALL_SECONDS)
        self._end(None)
        return has_ended

    def ended(self) -> CommandEnded:
        """Return how it ended."""
        if self.result is None:
            raise Failed("child_not_ended", where=f"process {self.pid}")
        return self.result


@dataclass
class ProcessParent:
    """The parent of all child processes of a scenario; use it in a ``with``."""

    module: str = MODULE
    """The module whose ``main`` is the parent."""

    def __enter__(self) -> Self:
        self._control, child_socket = socket.socketpair()
        with child_socket:
            # In a group of its own: a Ctrl-C of the terminal is for the scenario's process alone.
            program = f"from {self.module} import main; main()"
            self._parent = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-c", program], stdin=child_socket.fileno(), process_group=0
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
        typed = ["--config", str(config), *words, "--json"]
        return self.start(words, "command", {"elsewhere": elsewhere}, typed=typed)

    def start_replicator(self, settings: Settings, flow: FlowSettings, folder: Path) -> Child:
        """Start a replicator without Spark, which never waits for leave; its log is in the folder."""
        log, history = folder / f"replicator-{flow.source}.log", str(folder / HISTORY)
        plain: dict[str, Any] = {"settings": settings.model_dump(mode="json"), "history": history}
        return self.start(("drkit", "replicate"), "replicate", log=log, flow=flow.name, **plain)

    def start(
        self,
        words: tuple[str, ...],
        work: str,
        journal: Mapping[str, Any] | None = None,
        *,
        log: Path | None = None,
        **arguments: Any,
    ) -> Child:
        """Start a process that does one kind of :data:`WORK`, with its arguments.

        :param words: names it in errors
        :param journal: attributes of its :class:`PausingJournal`
        :param log: file of what it prints
        :raises Failed: it does not start
        """
        connection, child_connection = Pipe()
        command = {"work": work, "journal": journal or {}, "log": log, "arguments": arguments}
        try:
            with child_connection:
                socket.send_fds(self._control, [b"."], [child_connection.fileno()])
            return Child(words, connection, command)
        except OSError as error:
            raise Failed("child_not_started", evidence=repr(error)) from error


class PausingJournal(Journal):
    """A journal whose process waits for leave at each entry that is in the topic."""

    connection: ClassVar[Connection]
    elsewhere = False
    """True if the process pretends to be on a machine that cannot be seen from here."""

    def _holder(self) -> dict[str, Any]:
        return super()._holder() | ({"host": "another-machine"} if self.elsewhere else {})

    def _to_topic(self, entry: JournalEntry) -> None:
        super()._to_topic(entry)
        table = self.run.table.name
        self.wait_at(JournalEntered(table, self.run_id, entry.step or "", entry.kind, entry.effect))

    def wait_at(self, entry: object) -> Any:
        """Report an entry, and wait for leave."""
        self.connection.send({"entry": entry})
        return self.connection.recv()


Ended = tuple[int, str, str]
"""An exit code, and what a command prints on standard output and on standard error."""


def run_drkit(typed: Sequence[str]) -> Ended:
    """Run a command of drkit."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = import_module(_COMMAND_LINE).run([*typed])
    return code, out.getvalue(), err.getvalue()


def _fail_over(settings: Mapping[str, Any], request: Mapping[str, Any]) -> Ended:
    """Fail over all of the first flow; return what a command with ``--json`` would."""
    plain = Settings.model_validate(settings)
    try:
        with FailoverService(plain, plain.flows[0]) as service:
            return 0, json.dumps(service.begin([], RunRequest.from_json(request))), ""
    except DrkitError as error:
        return error.exit_code, "", json.dumps({**error.as_dict(), "kind": type(error).__name__}, indent=1)


def _replicate(settings: Mapping[str, Any], flow: str, history: str) -> None:
    plain, recorder = Settings.model_validate(settings), Recorder(Path(history), "replicator")

    def record(report: TaskReport) -> None:
        stopped = {f"{p.topic}-{p.partition}": p.reason for p in report.partitions if p.reason}
        was_fenced = any(reason.startswith(_FENCED) for reason in stopped.values())
        recorder.record(CopyEnded(flow, report.ended, stopped, was_fenced))

    replicator = SoloReplicator(plain, plain.one_flow(flow))
    replicator.on_report = record
    replicator.run()


WORK: Final[dict[str, Callable[..., Ended | None]]] = {
    "command": run_drkit,
    "failover": _fail_over,
    "replicate": _replicate,
    "client": run_client,
}
"""The kinds of children."""


def _run_child(descriptor: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the scenario's own process ends its children
    ended: tuple[Any, ...] = (1,)
    connection = Connection(descriptor)
    try:
        command = connection.recv()
        connection.send({"pid": os.getpid()})
        if command["log"] is not None:
            log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
        PausingJournal.connection, Runs.journal_class = connection, PausingJournal
        for name, value in command["journal"].items():
            setattr(PausingJournal, name, value)
        ended = WORK[command["work"]](**command["arguments"]) or (0,)
    except SystemExit as end:
        ended = (end.code if isinstance(end.code, int) else 0,)
    except (EOFError, BrokenPipeError):  # the scenario has ended
        pass
    except BaseException:  # noqa: BLE001  the child ends here in any case, and its log shows why
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        with suppress(OSError):  # the scenario may have closed it
            connection.send({"ended": ended})
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
    os._exit(0)  # an orderly end takes a while, in which its children work on
