"""The lease of a flow's run, as its driver renews it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import threading
import time
from typing import Final

from drkit.flow_state.processes import this_process
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.topic import StateTopic

LEASE_SECONDS: Final = 6.0


def renew(state: StateTopic, run: str = "run") -> None:
    state.put(LeaseRecord(run, this_process(), time.time_ns(), int(LEASE_SECONDS * 1000)))


@contextmanager
def renewing(state: StateTopic, who: str = "run") -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.5):
            renew(state, who)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
