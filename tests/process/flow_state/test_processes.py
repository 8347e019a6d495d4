"""What a machine says about the process that holds something."""

from __future__ import annotations

from dataclasses import replace
import os
import subprocess
import sys

import pytest

from drkit.flow_state.processes import in_session, lives_here, this_process
from drkit.flow_state.records import Process


def test_a_process_id_that_is_used_again_is_another_process():
    mine = this_process()
    assert lives_here(mine) is True
    assert lives_here(replace(mine, born=(mine.born or 0) - 1)) is False


@pytest.mark.parametrize("other", [{"host": "another"}, {"space": "another boot/pid:[1]"}])
def test_a_process_of_another_machine_or_boot_is_not_for_us_to_see(other: dict[str, str]):
    assert lives_here(replace(this_process(), **other)) is None  # type: ignore[arg-type]


def test_a_process_that_is_hidden_from_us_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch):
    """As with /proc mounted ``hidepid=2``, and a holder of another user."""
    mine = this_process()
    hidden = Process(mine.host, mine.pid + 100_000, mine.space, 5)

    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    assert lives_here(hidden) is False
    monkeypatch.setattr(os, "kill", refused)
    assert lives_here(hidden) is None


def test_a_session_lives_as_long_as_one_of_its_processes():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        assert in_session(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not in_session(child.pid), "one that has ended, and was not waited for"
    finally:
        child.communicate()
