"""How the process of a command ends: with the command's exit code, whatever is still at work in it."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import suppress
import os
import sys
from typing import NoReturn


def end_with(work: Callable[[], int]) -> NoReturn:
    """Run a command, and end the process with its exit code.

    Python ends as always: threads that are no daemons are waited for, and what is registered with
    :mod:`atexit` runs. Then the process ends at once, without the exit handlers of C libraries. librdkafka's
    threads, and Python's daemon threads, are still at work. OpenSSL's handler frees what a thread of
    librdkafka uses to authenticate, and three of a hundred refused logins ended by SIGSEGV or SIGABRT.
    """
    code = 1

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    atexit.register(end)  # the first that is registered is the last that is called
    try:
        code = work()
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    sys.exit(code)
