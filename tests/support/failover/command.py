"""The command line in this process: what it answers, as data."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
import io
import json
from pathlib import Path
import re
from typing import Any, NamedTuple

from drkit.cli import main as cli


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


def drkit(file: Path, *words: str) -> Said:
    """Run a command with ``--json``; a process of its own would take seconds to load."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run(["--config", str(file), *words, "--json"])
    return Said(code, out.getvalue(), err.getvalue())
