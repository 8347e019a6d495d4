"""Child processes of a scenario: commands of drkit that wait at each journal entry, replicators and clients.

A parent process has everything loaded and forks a child for each of them, so that a child starts at once. A
child connects to the scenario's socket and reports in JSON, line by line; a command waits for leave at each
entry. All children die with their parent, and the parent with the process that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
import ctypes
from importlib import import_module
import io
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
import traceback
from typing import Any, Final, NamedTuple, Self

from drkit.chaos.clients import run_client
from drkit.clock import monotonic
from drkit.config import Settings, load
from drkit.errors import Failed
from drkit.failover.journal.entries import JournalEntry
from drkit.failover.journal.journal import Journal
from drkit.failover.runs import Runs
from drkit.replicate.solo import SoloReplicator

MODULE: Final = "drkit.chaos.orchestrator"
_COMMAND_LINE: Final = "drkit.cli.main"
_ACTIONS: Final = ("failover", "fence", "status", "divergence", "back.reprotect", "back.failback")
"""Commands that no child has to load."""
_CALL_SECONDS: Final = 150.0
_END_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1


class JournalPosition(NamedTuple):
    """An entry of a run's journal."""

    kind: str
    step: str
    effect: str


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
        self.pid = int(self._receive()["pid"])
        self.run, self.table = "", ""
        """The run, and the name of its table, of the newest entry."""
        self.result: CommandResult | None = None

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError as error:
            raise Failed(
                "a command wrote no journal entry in time", where=f"process {self.pid}: {self._words}",
                evidence=f"{_CALL_SECONDS:.0f} s",
            ) from error  # fmt: skip
        return dict(json.loads(line)) if line else {}

    def next_entry(self) -> JournalPosition | None:
        """Return the next entry, at which the process waits; None when it has ended."""
        message = self._receive()
        if "entry" in message:
            self.run, self.table = message["run"], message["table"]
            return JournalPosition(*message["entry"])
        self.result = CommandResult(self._words, **message.get("ended", {"code": None}))
        self._lines.close()
        return None

    def proceed(self, slept: float = 0.0) -> None:
        """Let it continue; with `slept`, as a process that was suspended for some seconds."""
        self._lines.write(json.dumps({"slept": slept}) + "\n")
        self._lines.flush()

    def run_until(self, is_wanted: Callable[[JournalPosition], bool]) -> JournalPosition | None:
        """Return the first wanted entry, at which the process waits; None if it ended before."""
        while (position := self.next_entry()) is not None and not is_wanted(position):
            self.proceed()
        return position

    def finish(self) -> CommandResult:
        """Let it run to its end."""
        self.run_until(lambda _: False)
        return self._ended()

    def kill(self) -> CommandResult:
        """Send SIGKILL and wait for the end."""
        self.signal(signal.SIGKILL)
        while self.next_entry() is not None:
            pass
        return self._ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.result is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def end_before(self, deadline: float) -> None:
        """Wait for the end of a process that got SIGTERM; kill it at the deadline (a monotonic time)."""
        while self._exists():
            if monotonic() > deadline:
                self.signal(signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        self.result = CommandResult(self._words, None)

    def _exists(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _ended(self) -> CommandResult:
        if self.result is None:
            raise Failed("a child process has not ended", where=f"process {self.pid}")
        return self.result


class ProcessParent:
    """The parent of all child processes of a scenario; use it in a ``with``.

    :param module: the module that runs as the parent
    """

    def __init__(self, module: str = MODULE) -> None:
        self._module = module

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="drkit-chaos-")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"{self._folder}/s")
        self._socket.listen()
        self._socket.settimeout(_END_SECONDS)
        self._parent = subprocess.Popen(  # noqa: S603  our own program
            [sys.executable, "-m", self._module, f"{self._folder}/s"], stdin=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._parent.stdin is not None:
            self._parent.stdin.close()
        self._parent.wait(_END_SECONDS)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run_command(self, config: Path, *words: str, elsewhere: bool = False) -> Child:
        """Start a command; ``--json`` is added.

        :param elsewhere: on a machine that cannot see the processes of this one
        """
        typed = ["--config", str(config), *words, "--json"]
        return self._fork(words, typed=typed, elsewhere=elsewhere)

    def start_replicator(self, settings: Mapping[str, Any] | Path, flow: str, log: Path) -> Child:
        """Start a replicator without Spark, which never waits for leave.

        :param settings: the configuration as plain data, or its file
        :param flow: the name of the flow; empty: the first one
        """
        given = str(settings) if isinstance(settings, Path) else settings
        return self._fork(("drkit", "replicate"), settings=given, flow=flow, log=str(log))

    def start_client(self, client: Mapping[str, Any], log: Path) -> Child:
        """Start a client of :mod:`drkit.chaos.clients`, which works until SIGTERM."""
        return self._fork((str(client["kind"]),), client=client, log=str(log))

    def _fork(self, words: tuple[str, ...], **command: Any) -> Child:
        if self._parent.stdin is None:
            raise Failed("the parent of the scenario's processes has no standard input")
        try:
            self._parent.stdin.write(json.dumps(command).encode() + b"\n")
            self._parent.stdin.flush()
            return Child(words, self._socket.accept()[0])
        except (OSError, TimeoutError) as error:
            raise Failed("a process of the scenario does not start", evidence=repr(error)) from error


# -- in the parent and its children -----------------------------------------------------------------------


class PausingJournal(Journal):
    """A journal whose process waits for leave after each entry."""

    lines: Any = None
    elsewhere = False

    def _holder(self) -> dict[str, Any]:
        return super()._holder() | ({"host": "another-machine"} if self.elsewhere else {})

    def _to_topic(self, entry: JournalEntry) -> None:
        super()._to_topic(entry)
        position = JournalPosition(entry.kind, entry.step or "", entry.effect)
        _send(self.lines, {"entry": position, "run": entry.run_id, "table": self.run.table.name})
        if slept := json.loads(self.lines.readline())["slept"]:
            _advance_clocks(slept)


def _send(lines: Any, message: Mapping[str, Any]) -> None:
    lines.write(json.dumps(message) + "\n")
    lines.flush()


def _advance_clocks(seconds: float) -> None:
    """Set this process's clocks forward, as after a suspension."""
    monotonic, any_clock = time.monotonic, time.clock_gettime
    time.monotonic = lambda: monotonic() + seconds
    time.clock_gettime = lambda clock: any_clock(clock) + seconds


def run_drkit(typed: list[str], lines: Any, *, elsewhere: bool) -> None:
    """Run a command of drkit in this process, with a journal that waits for leave."""
    PausingJournal.lines, PausingJournal.elsewhere = lines, elsewhere
    Runs.journal_class = PausingJournal
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = import_module(_COMMAND_LINE).run(typed)
    _send(lines, {"ended": {"code": code, "out": out.getvalue(), "err": err.getvalue()}})


def _work(command: Mapping[str, Any], lines: Any) -> None:
    if "typed" in command:
        run_drkit(command["typed"], lines, elsewhere=command["elsewhere"])
        return
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if "client" in command:
        run_client(**command["client"])
        return
    given = command["settings"]
    settings = load(Path(given)) if isinstance(given, str) else Settings.model_validate(given)
    flow = settings.one_flow(command["flow"]) if command["flow"] else settings.flows[0]
    SoloReplicator(settings, flow).run()


def _run_child(command: Mapping[str, Any], path: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the scenario's own process ends its children
    code = 1
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            lines = connection.makefile("rw", encoding="utf-8")
            _send(lines, {"pid": os.getpid()})
            _work(command, lines)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001  the child ends here in any case, and its log shows why
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Fork a child for each line on standard input, until its end."""
    import_module(_COMMAND_LINE)
    for name in _ACTIONS:
        import_module(f"drkit.cli.actions.{name}")
    # No ended child remains as a zombie, which would look alive.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            _run_child(json.loads(line), sys.argv[1])


if __name__ == "__main__":
    main()
