"""The command line in this process: what it answers, as data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
import io
import json
from pathlib import Path
import re
import signal
from typing import Any, Final, NamedTuple

from drkit.cli import main as cli

_HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Said(NamedTuple):
    """An answer of the command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it printed."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The code of the error on standard error, after its progress; empty: none."""
        found = re.findall(r'^  "code": "(\w+)"', self.err, re.MULTILINE)
        return found[-1] if found else ""


@contextmanager
def same_handlers() -> Iterator[None]:
    """Restore the signal handlers at the end: those of a command would take an interrupt of a later test."""
    before = {number: signal.getsignal(number) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def drkit(file: Path, *words: str) -> Said:
    """Run a command with ``--json``; a process of its own would take seconds to load."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), same_handlers():
        code = cli.run(["--config", str(file), *words, "--json"])
    return Said(code, out.getvalue(), err.getvalue())
