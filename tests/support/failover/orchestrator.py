"""Orchestrators as processes that can be killed at any boundary of their journal.

A parent has everything loaded and forks a child for each failover, so that a hundred of them take minutes. A
command is one line of JSON on standard input, its outcome one line on standard output.
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
import traceback
from typing import Any, NamedTuple, Self

from drkit import observe
from drkit.config import Settings
from drkit.errors import DrkitError
from drkit.failover.core.request import RunRequest
from drkit.failover.journal.entries import JournalEntry
from drkit.failover.journal.journal import Journal
from drkit.failover.runs import Runs
from drkit.failover.service import FailoverService
from tests.support.warm import WarmProcess

_ROOT = Path(__file__).parents[3]


class Kill(NamedTuple):
    """Where an orchestrator dies: at which entry that it writes, and when."""

    entry: int | str
    """Its number, or its step, effect and kind: entries before it may be more or fewer."""
    when: str
    """``before`` it is written anywhere, when it is in the ``file`` only, or ``after`` it is
    everywhere.
    """


class MortalJournal(Journal):
    """A journal whose process is killed at one of its boundaries."""

    kill: Kill | None = None
    freeze: Kill | None = None
    elsewhere = False
    """Pretend to run on another machine, whose processes cannot be seen here."""
    written = 0

    def _holder(self) -> dict[str, Any]:
        return super()._holder() | ({"host": "another-machine"} if self.elsewhere else {})

    def _to_file(self, entry: JournalEntry) -> None:
        self._may_die("before", entry)
        super()._to_file(entry)
        self._may_die("file", entry)

    def _to_topic(self, entry: JournalEntry) -> None:
        super()._to_topic(entry)
        self._may_die("after", entry)
        MortalJournal.written += 1

    def _may_die(self, when: str, entry: JournalEntry) -> None:
        here = Kill(self.written, when), Kill(f"{entry.step} {entry.effect} {entry.kind}", when)
        if self.kill in here:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.freeze in here:
            os.kill(os.getpid(), signal.SIGSTOP)


class Outcome(NamedTuple):
    """How an orchestrator ended."""

    killed: bool
    report: dict[str, Any] | None
    error: dict[str, Any] | None


class Running:
    """An orchestrator at work."""

    def __init__(self, command: Mapping[str, Any]) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        line = json.dumps(command).encode() + b"\n"
        with Path(os.devnull).open("wb") as nowhere:
            self.process = WarmProcess(
                "tests.support.failover.orchestrator", stdin=line, out=self._out.fileno(),
                err=nowhere.fileno(),
            )  # fmt: skip

    def outcome(self, seconds: float = 90.0) -> Outcome:
        """Wait for its end."""
        self.process.wait(seconds)
        self._out.seek(0)
        return Outcome(**json.loads(self._out.read().splitlines()[-1]))


def _children(running: Running) -> list[int]:
    pid = running.process.pid
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def is_stopped(running: Running) -> bool:
    """Whether the child that does the work is suspended."""
    stats = [Path(f"/proc/{c}/stat").read_text(encoding="utf-8") for c in _children(running)]
    return any(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def wake(running: Running) -> None:
    """Let it continue."""
    for child in _children(running):
        os.kill(child, signal.SIGCONT)


class Orchestrators:
    """A warm parent, in a ``with``."""

    def __enter__(self) -> Self:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.support.failover.orchestrator"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, cwd=_ROOT,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        self._parent.wait(30)

    def run(self, settings: Mapping[str, Any], verb: str, **more: Any) -> Outcome:
        """One orchestrator to its end.

        :param more: ``groups``, ``topics``, ``request``, ``kill``, ``elsewhere``
        """
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        command = {"settings": settings, "verb": verb, **more}
        self._parent.stdin.write(json.dumps(command).encode() + b"\n")
        self._parent.stdin.flush()
        return Outcome(**json.loads(self._parent.stdout.readline()))


def _work(command: Mapping[str, Any]) -> dict[str, Any]:
    settings = Settings.model_validate(command["settings"])
    for name in ("kill", "freeze"):
        setattr(MortalJournal, name, Kill(*command[name]) if command.get(name) else None)
    MortalJournal.elsewhere = bool(command.get("elsewhere"))
    Runs.journal_class = MortalJournal
    request = RunRequest(**command.get("request", {}))
    with FailoverService(settings, settings.flows[0]) as desk:
        match command["verb"]:
            case "begin":
                return desk.begin(command["groups"], request, topics=command.get("topics", ()))
            case "return":
                return desk.begin_return(request, topics=command["topics"])
            case "resume":
                return desk.resume(request)
            case _:
                return desk.abort("for the test")


def _child(command: Mapping[str, Any], pipe: int) -> None:
    try:
        answer: dict[str, Any] = {"killed": False, "report": _work(command), "error": None}
    except DrkitError as error:
        answer = {"killed": False, "report": None, "error": {**error.as_dict(), "kind": type(error).__name__}}
    with os.fdopen(pipe, "w") as out:
        json.dump(answer, out)


def _forked(command: Mapping[str, Any]) -> str:
    """Run in a child: what it does to itself does not concern the parent."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            _child(command, writer)
            code = 0
        except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return json.dumps({"killed": True, "report": None, "error": {"signal": os.WTERMSIG(status)}})
    return answer or json.dumps(
        {"killed": False, "report": None, "error": {"kind": "crash", "error": "crash"}}
    )


def main() -> None:
    observe.setup()  # what is logged, as of other pairs on the same brokers, is no answer
    for line in sys.stdin:
        sys.stdout.write(_forked(json.loads(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
