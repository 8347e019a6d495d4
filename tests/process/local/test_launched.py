"""A command that ends with the process that launched it."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENDED_BEFORE_ITS_ID_IS_KNOWN = """
import signal, sys
from drkit.local.process import Launched
launched = Launched(["/bin/sleep", "60"], sys.stderr.buffer)
launched.signal(signal.{number})
launched.wait(20)
print(launched.pid, launched.running, launched.told_pid())
"""


@pytest.mark.parametrize("number", ["SIGTERM", "SIGKILL"])
def test_a_signal_before_its_id_is_known_reaches_nothing_else(number: str) -> None:
    """An id of 0 would signal all processes of this process's group, such as the whole job of a shell."""
    done = subprocess.run(
        [sys.executable, "-c", ENDED_BEFORE_ITS_ID_IS_KNOWN.format(number=number)],
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        timeout=50,
    )
    assert (done.returncode, done.stdout) == (0, "0 False 0\n"), done.stderr
