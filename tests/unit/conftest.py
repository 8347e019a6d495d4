"""Unit tests: no broker, no Java, no process of any kind; a test that starts one fails."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
import sys
from typing import Final

import pytest

_HERE: Final = Path(__file__).parent
_STARTS: Final = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn",
    "subprocess.Popen",
})  # fmt: skip
"""Python's audit events of what starts a process."""


class Started(RuntimeError):
    """A unit test starts a process."""


class _Watch:
    """Refuses processes while a unit test runs, whichever thread starts them."""

    watching = False

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if self.watching and event in _STARTS:
            raise Started(f"unit tests start no process, and this one does: {event} {args[:2]}")


_WATCH: Final = _Watch()
sys.addaudithook(_WATCH)  # there is no way to take it away: hence the switch


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # Pytest asks every conftest about every test.
    _WATCH.watching = item.path.is_relative_to(_HERE)
    try:
        return (yield)
    finally:
        _WATCH.watching = False


@pytest.fixture(scope="session")
def _clusters() -> None:
    """Replaces the shared brokers, which another file of this process may have started."""
    pytest.fail("unit tests use no broker: this one belongs into tests/cluster")
