"""Commands of drkit as processes that wait for leave at each entry of their journal.

A parent has everything loaded and forks a child for each command. A child connects to the test's socket and
says in JSON, line by line, which entry it has written; it continues when it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
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
from typing import Any, NamedTuple, Self

from drkit.cli import main as cli
from drkit.cli.actions import failover as _failover
from drkit.cli.actions import fence as _fence
from drkit.config import Settings
from drkit.failover.journal.entries import JournalEntry
from drkit.failover.journal.journal import Journal
from drkit.failover.runs import Runs
from drkit.replicate.solo import SoloReplicator

LOADED = (_failover, _fence)
"""Commands that no child has to load."""
_ROOT = Path(__file__).parents[4]
_HANGS_SECONDS = 150.0


class At(NamedTuple):
    """An entry of the journal."""

    kind: str
    step: str
    effect: str


class Said(NamedTuple):
    """How a command ended."""

    words: tuple[str, ...]
    code: int | None
    """None: it was killed."""
    out: str = ""
    err: str = ""

    @property
    def error(self) -> dict[str, Any]:
        """What it refused, as data; empty when it did not."""
        found: dict[str, Any] = {}
        if self.code:
            found = json.loads(self.err[self.err.index("{\n") :])
        return found


class Running:
    """A process that waits for leave."""

    def __init__(self, words: tuple[str, ...], connection: socket.socket) -> None:
        connection.settimeout(_HANGS_SECONDS)
        self._words, self._lines = words, connection.makefile("rw", encoding="utf-8")
        connection.close()
        self.pid = int(self._heard()["pid"])
        self.said: Said | None = None

    def _heard(self) -> dict[str, Any]:
        line = self._lines.readline()
        return json.loads(line) if line else {}

    def entry(self) -> At | None:
        """The next entry, at which it waits; None: it ended."""
        message = self._heard()
        if "entry" in message:
            return At(*message["entry"])
        self.said = Said(self._words, **message.get("ended", {"code": None}))
        self._lines.close()
        return None

    def go_on(self, slept: float = 0.0) -> None:
        """Let it continue, as a process that was suspended for some seconds."""
        self._lines.write(json.dumps({"slept": slept}) + "\n")
        self._lines.flush()

    def until(self, wanted: Callable[[At], bool]) -> At | None:
        """The first entry like that, at which it waits; None: it ended before."""
        while (at := self.entry()) is not None and not wanted(at):
            self.go_on()
        return at

    def ended(self) -> Said:
        """Let it work to its end."""
        self.until(lambda _: False)
        assert self.said is not None
        return self.said

    def kill(self) -> Said:
        """SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.entry() is None
        assert self.said is not None
        return self.said


class Warm:
    """The parent; use it in a ``with``."""

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="walk-")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"{self._folder}/s")
        self._socket.listen()
        self._socket.settimeout(_HANGS_SECONDS)
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.support.failover.walk.processes", f"{self._folder}/s"],
            stdin=subprocess.PIPE, cwd=_ROOT,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        self._parent.wait(30)
        self._socket.close()
        shutil.rmtree(self._folder)

    def _fork(self, words: tuple[str, ...], **command: Any) -> Running:
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps(command).encode() + b"\n")
        self._parent.stdin.flush()
        return Running(words, self._socket.accept()[0])

    def drkit(self, file: Path, *words: str, elsewhere: bool = False) -> Running:
        """Type a command; ``--json`` is added.

        :param elsewhere: on a machine that cannot see the processes of this one
        """
        typed = ["--config", str(file), *words, "--json"]
        return self._fork(words, typed=typed, elsewhere=elsewhere)

    def replicate(self, settings: Mapping[str, Any], log: Path) -> Running:
        """A replicator without Spark; it never waits for leave."""
        return self._fork(("drkit", "replicate"), settings=settings, log=str(log))


# -- in the child -----------------------------------------------------------------------------------------


class AskingJournal(Journal):
    """A journal whose process waits for leave after each entry."""

    lines: Any = None
    elsewhere = False

    def _holder(self) -> dict[str, Any]:
        return super()._holder() | ({"host": "another-machine"} if self.elsewhere else {})

    def _to_topic(self, entry: JournalEntry) -> None:
        super()._to_topic(entry)
        _say(self.lines, {"entry": At(entry.kind, entry.step or "", entry.effect)})
        if slept := json.loads(self.lines.readline())["slept"]:
            _sleep(slept)


def _say(lines: Any, message: Mapping[str, Any]) -> None:
    lines.write(json.dumps(message) + "\n")
    lines.flush()


def _sleep(seconds: float) -> None:
    """Set the clocks forward, as for a process that was suspended for `seconds`."""
    monotonic, any_clock = time.monotonic, time.clock_gettime
    time.monotonic = lambda: monotonic() + seconds
    time.clock_gettime = lambda clock: any_clock(clock) + seconds


def _work(command: Mapping[str, Any], lines: Any) -> None:
    if "log" in command:
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        settings = Settings.model_validate(command["settings"])
        SoloReplicator(settings, settings.flows[0]).run()
        return
    AskingJournal.lines, AskingJournal.elsewhere = lines, command["elsewhere"]
    Runs.journal_class = AskingJournal
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run(command["typed"])
    _say(lines, {"ended": {"code": code, "out": out.getvalue(), "err": err.getvalue()}})


def _child(command: Mapping[str, Any], path: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            lines = connection.makefile("rw", encoding="utf-8")
            _say(lines, {"pid": os.getpid()})
            _work(command, lines)
        code = 0
    except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    # No ended child remains as a zombie, which would look alive.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            _child(json.loads(line), sys.argv[1])


if __name__ == "__main__":
    main()
