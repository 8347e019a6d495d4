"""Run somebody's program: it gets a document on its input and variables, and has some time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
import os
import signal
import subprocess
from typing import Final, NamedTuple

from drkit.errors import Failed
from drkit.masking import scrubbed
from drkit.repoint.contract import TryAgain

_SAID: Final = 2000
"""The last bytes of what a program said that are worth repeating."""
_LAST_WORDS_SECONDS: Final = 2.0


class Ended(NamedTuple):
    """How a program ended, and the end of what it said on both outputs."""

    code: int
    said: str


def run_program(
    command: Sequence[str], document: str, variables: Mapping[str, str], timeout_seconds: float
) -> Ended:
    """Run a program without a shell, in a process group of its own, which is killed when the time is over.

    :raises Failed: it cannot be started
    :raises TryAgain: it has not ended in time
    """
    try:
        process = subprocess.Popen(  # noqa: S603  the command is the user's own, and no shell reads it
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,
        )
    except OSError as error:
        raise Failed(
            "the command cannot be started",
            where=command[0],
            evidence=error.strerror or str(error),
            hint="name it with its full path, and let drkit's user execute it",
        ) from error
    try:
        said, _ = process.communicate(document.encode(), timeout_seconds)
    except subprocess.TimeoutExpired as error:
        said = _kill(process)
        raise TryAgain(
            f"the command has not ended in {timeout_seconds:g} s and was killed",
            where=command[0],
            evidence=_end_of(said) or "it said nothing",
            hint="let it end sooner, or raise timeout_seconds",
        ) from error
    except BaseException:
        _kill(process)
        raise
    return Ended(process.returncode, _end_of(said))


def _kill(process: subprocess.Popen[bytes]) -> bytes:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_LAST_WORDS_SECONDS)[0]
    except subprocess.TimeoutExpired:
        # A grandchild in a group of its own may hold the pipe for ever: nobody waits for its words.
        return b""


def _end_of(said: bytes) -> str:
    return scrubbed(said[-_SAID:].decode(errors="replace").strip())
