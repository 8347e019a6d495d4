"""Run one command and end it when the process that asked for it is gone, however that happened.

Run as a script: ``python -I -S launcher.py COMMAND...`` with a pipe as standard input whose other end the
parent keeps. It prints the command's process id on standard output and exits with the command's exit code.

Why a process of its own: the kernel's parent-death signal fires when the *thread* that forked ends, so a
broker started from a worker thread would die with that thread. Here the forking thread is this process's
only one, and the end of the real parent is seen as the end of the pipe, or as a new parent process id.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

DETACH = b"d"
"""Written by the parent: from now on the command lives on without it."""

_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 1.0


def main(command: list[str]) -> int:
    """Start the command, wait for its end or for the parent's."""
    parent = os.getppid()
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        _become(command, launcher, prctl)
    os.write(1, b"%d\n" % child)
    os.close(1)
    return _wait(child, parent, wake)


def _become(command: list[str], launcher: int, prctl: object) -> None:
    try:
        if callable(prctl):
            prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
            if os.getppid() != launcher:  # the launcher was killed before the line above
                os._exit(127)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123  pathlib is slow to load, and this runs per broker
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        signal.set_wakeup_fd(-1)
        os.execv(command[0], command)  # noqa: S606  a JVM, as asked for
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _wait(child: int, parent: int, wake: int) -> int:
    watched = [wake, 0]
    while True:
        ready, _, _ = select.select(watched, [], [], _LOOK_SECONDS)
        if 0 in ready and os.read(0, 1) == DETACH:
            watched = [wake]
        # A fork of the parent may hold the pipe open: the changed parent id tells the truth then.
        elif 0 in watched and (0 in ready or os.getppid() != parent):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 1
        if wake in ready:
            os.read(wake, 64)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
