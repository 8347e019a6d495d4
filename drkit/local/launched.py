"""A command run by :mod:`drkit.local.launcher`: it ends when this process does, however that happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
import os
import signal
import subprocess
import sys
from typing import BinaryIO

from drkit.local import launcher


class Launched:
    """Starts the command; :meth:`told_pid` returns when it runs.

    :param console: the file of its output
    :param environment: of the command; None: that of this process
    """

    def __init__(
        self, command: Sequence[str], console: BinaryIO, environment: Mapping[str, str] | None = None
    ) -> None:
        self.pid = 0
        """The command's process id; 0 until the launcher has told it."""
        self._launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", launcher.__file__, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=console,
            env=environment,
            start_new_session=True,  # Ctrl-C at a terminal is for drkit, which then ends the command
        )

    @property
    def running(self) -> bool:
        """Whether the process exists (a frozen one does)."""
        return self._launcher.poll() is None

    def told_pid(self) -> int:
        """Wait until the command runs; its process id, 0 if it could not be started."""
        line = b""
        with suppress(ValueError):  # another thread has ended it, and closed the pipe
            line = self._launcher.stdout.readline() if self._launcher.stdout else b""
        self.pid = int(line.strip() or 0)
        return self.pid

    def detach(self) -> None:
        """Let the command live on when this process ends."""
        if self._launcher.stdin:
            self._launcher.stdin.write(launcher.DETACH)
            self._launcher.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send the command a signal; one whose process id is not known yet is killed."""
        if not self.running:
            return
        if not self.pid:  # 0 means all processes of this process's own group
            self.kill_launcher()
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill_launcher(self) -> None:
        """SIGKILL the launcher; the kernel ends the command with it."""
        self._launcher.kill()

    def wait(self, seconds: float) -> None:
        """Wait for the end.

        :raises subprocess.TimeoutExpired: it runs on
        """
        self._launcher.wait(seconds)
        for pipe in (self._launcher.stdin, self._launcher.stdout):
            if pipe:
                pipe.close()
