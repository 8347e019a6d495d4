"""Run a user's program with a document on its standard input, with variables and a timeout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
import os
import signal
import subprocess
import threading
from typing import IO, Final, NamedTuple

from drkit.errors import Failed
from drkit.masking import scrubbed
from drkit.repoint.contract import TryAgain

_SAID: Final = 2000
"""Last bytes of a program's output that are kept."""
_CHUNK: Final = 64 * 1024
_LAST_WORDS_SECONDS: Final = 2.0
_CHILDREN_SECONDS: Final = 0.2
"""The outputs of a program that has ended are closed by then, unless a child of it keeps them open."""


class Ended(NamedTuple):
    """How a program ended, and the end of its output on both streams."""

    code: int
    output: str


def run_program(
    command: Sequence[str], document: str, variables: Mapping[str, str], timeout_seconds: float
) -> Ended:
    """Run a program without a shell, in a process group of its own, which is killed when the time is over.

    It has ended when its own process has: a child that it leaves in the background keeps running.

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
    except (OSError, ValueError) as error:
        said = error.strerror or str(error) if isinstance(error, OSError) else "it holds a NUL character"
        raise Failed("program_not_started", where=_shown(command), evidence=said) from error
    talk = _Talk(process, document)
    try:
        code = process.wait(timeout_seconds)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise TryAgain(
            "program_timeout",
            where=_shown(command),
            evidence=talk.heard(_LAST_WORDS_SECONDS) or "it said nothing",
            timeout_seconds=timeout_seconds,
        ) from error
    except BaseException:
        _kill(process)
        raise
    return Ended(code, talk.heard(_CHILDREN_SECONDS))


class _Talk:
    """Writes the document and reads output of any size, in threads that block nothing."""

    def __init__(self, process: subprocess.Popen[bytes], document: str) -> None:
        assert process.stdin is not None  # noqa: S101  both are pipes
        assert process.stdout is not None  # noqa: S101
        self._kept = b""
        writes = threading.Thread(target=_write, args=(process.stdin, document.encode()), daemon=True)
        self._reads = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        for thread in (writes, self._reads):
            thread.start()

    def _read(self, output: IO[bytes]) -> None:
        with output, suppress(OSError):
            while chunk := os.read(output.fileno(), _CHUNK):
                self._kept = (self._kept + chunk)[-_SAID:]

    def heard(self, seconds: float) -> str:
        """The end of the output; waits up to this many seconds for the rest of it."""
        self._reads.join(seconds)
        return scrubbed(self._kept.decode(errors="replace").strip())


def _write(entry: IO[bytes], document: bytes) -> None:
    with suppress(OSError):  # it need not read its input
        entry.write(document)
        entry.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_WORDS_SECONDS)


def _shown(command: Sequence[str]) -> str:
    return command[0].replace("\0", "\\0")
