"""The parent of a scenario's processes, and what its children do.

The parent has everything loaded, so a child that it forks starts at once. A child runs a command of drkit
with a journal that waits for leave at each entry, a replicator, or a client.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from drkit.chaos.processes import JournalPosition
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


def run_failover(settings: Settings, request: RunRequest, lines: Any) -> None:
    """Run a failover of the first flow in this process, with a journal that waits for leave."""
    PausingJournal.lines = lines
    Runs.journal_class = PausingJournal
    code, answer, problem = 0, "", ""
    try:
        with FailoverService(settings, settings.flows[0]) as service:
            answer = json.dumps(service.begin([], request))
    except DrkitError as error:
        code, problem = error.exit_code, json.dumps(error.as_dict(), indent=1)
    _send(lines, {"ended": {"code": code, "out": answer, "err": problem}})


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
    if "request" in command:
        run_failover(settings, RunRequest.from_json(command["request"]), lines)
        return
    flow = settings.one_flow(command["flow"]) if command["flow"] else settings.flows[0]
    SoloReplicator(settings, flow).run()


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
                _send(lines, {"ended": {"code": code}})
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
