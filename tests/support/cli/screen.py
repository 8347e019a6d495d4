"""Type a command line in a folder as a person at a shell does; the command runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
import io
from pathlib import Path
import re
import signal
import sys
from typing import NamedTuple

from drkit.cli import main as cli
from drkit.cli.signals import ENDING
from drkit.journal.machine import StepName
from tests.support.cli.shell import shell

ENDS = re.compile(r"; |, or |, then|, once|, which| when | says | fences | lifts |\n|$")
"""What follows a command in a sentence."""


class Screen(NamedTuple):
    """What a command printed."""

    code: int
    text: str

    def offers(self, *words: str) -> str:
        """Return the printed command that has these words."""
        starts = [found.start() for found in re.finditer(r"\bdrkit ", self.text)]
        lines = [self.text[a : ENDS.search(self.text, a).start()] for a in starts]  # type: ignore[union-attr]
        fitting = [line for line in lines if all(word in line for word in words)]
        assert fitting, f"no command with {words}:\n{self.text}"
        return fitting[0]


class _Tape(io.StringIO):
    """A screen that reports when the first step is on it."""

    def __init__(self, begun: Callable[[], object]) -> None:
        super().__init__()
        self._begun: Callable[[], object] | None = begun

    def write(self, text: str) -> int:
        if self._begun is not None and StepName.LOCK in text:
            self._begun()
            self._begun = None
        return super().write(text)


def type_line(
    line: str, folder: Path, answer: str = "", begun: Callable[[], object] = lambda: None
) -> Screen:
    """Type a line: a shell makes words of it, the command runs in this process.

    :param answer: the standard input
    :param begun: called when the command has printed its first step
    """
    name, *words = shell(line)
    assert name == "drkit"
    tape, before = _Tape(begun), sys.stdin
    handlers = {number: signal.getsignal(number) for number in ENDING}
    sys.stdin = io.StringIO(answer)
    try:
        with redirect_stdout(tape), redirect_stderr(tape), chdir(folder):
            code = cli.run(words)
    finally:
        sys.stdin = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "Traceback" not in tape.getvalue()
    return Screen(code, tape.getvalue())
