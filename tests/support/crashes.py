"""The run continues when one of its processes crashes or hangs. A part of conftest.py."""

from __future__ import annotations

from collections.abc import Generator
import faulthandler
from typing import Any

from _pytest.faulthandler import fault_handler_stderr_fd_key  # its only name: standard error, not captured
import pytest
from xdist.scheduler import LoadFileScheduling

GRACE_SECONDS = 60.0
"""How long after its timeout a test may still run, before its process is ended from C."""


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Continues after a process has crashed.

    A process begins a test only when it knows the next one, or that it is the last. pytest-xdist gives one
    that replaces another a single file: with one test in it both sides wait for each other, and the run never
    ends. It also repeats the test that has crashed, until no more processes may be replaced.
    """

    def schedule(self) -> None:
        late = self.collection is not None
        super().schedule()
        for node in self.nodes if late else ():
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        files: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        crashed = next((test for tests in files.values() for test, ended in tests.items() if not ended), None)
        for file, tests in files.items():
            left = {test: ended for test, ended in tests.items() if not ended and test != crashed}
            if left:
                self.workqueue[file] = left
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a process in which some thread waits for ever and holds the interpreter's lock.

    The thread of pytest-timeout needs that lock. pytest-xdist then reports the test and replaces the process;
    the brokers of the ended one end by themselves.
    """
    marker = item.get_closest_marker("timeout")
    seconds = marker.args[0] if marker else item.config.getvalue("timeout") or item.config.getini("timeout")
    if not seconds:
        return (yield)
    stderr = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(float(seconds) + GRACE_SECONDS, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
