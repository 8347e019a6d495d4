"""The parent of a scenario's processes, and what its children do.

The parent has everything loaded, so a child that it forks starts at once. A child runs a command of drkit
with a journal that waits for leave at each entry, a replicator, or a client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
import ctypes
from importlib import import_module
import io
import json
import os
from pathlib import Path
import signal
import socket
import sys
import time
import traceback
from typing import Any, Final

from drkit.chaos.clients import run_client
from drkit.chaos.processes import AFTER, BEFORE, IN_FILE, JournalPosition
from drkit.config import Settings, load
from drkit.errors import DrkitError
from drkit.failover.core.request import RunRequest
from drkit.failover.journal.entries import JournalEntry
from drkit.failover.journal.journal import Journal
from drkit.failover.runs import Runs
from drkit.failover.service import FailoverService
from drkit.replicate.solo import SoloReplicator

_COMMAND_LINE: Final = "drkit.cli.main"
_ACTIONS: Final = ("failover", "fence", "status", "divergence", "back.reprotect", "back.failback")
"""Commands that no child has to load."""
_PR_SET_PDEATHSIG: Final = 1


class PausingJournal(Journal):
    """A journal whose process waits for leave at boundaries of its entries."""

    lines: Any = None
    elsewhere = False
    """Whether the process pretends to be on a machine that cannot be seen from here."""
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
    lines.write(json.dumps(message) + "\n")
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


def _work(command: Mapping[str, Any], lines: Any) -> None:
    if "log" in command:
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
    if "client" in command:
        run_client(**command["client"])
        return
    if "typed" not in command:
        given = command["settings"]
        settings = load(Path(given)) if isinstance(given, str) else Settings.model_validate(given)
    if "flow" in command:
        flow = settings.one_flow(command["flow"]) if command["flow"] else settings.flows[0]
        SoloReplicator(settings, flow).run()
        return
    PausingJournal.lines, Runs.journal_class = lines, PausingJournal
    for name, value in command["journal"].items():
        setattr(PausingJournal, name, value)
    typed = command.get("typed")
    ended = run_drkit(typed) if typed else _run_service(settings, command["call"], command["arguments"])
    _send(lines, {"ended": ended})


def _run_child(command: Mapping[str, Any], path: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the scenario's own process ends its children
    code, lines = 1, None
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
        if lines is not None:  # one that was killed does not say that it ended
            with suppress(OSError):
                _send(lines, {"ended": (code,)})
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
