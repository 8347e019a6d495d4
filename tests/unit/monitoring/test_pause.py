"""How long a replicator waits between two looks: as its cost says, unless a note is due. No clusters."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.monitoring import board
from drkit.monitoring.board import FlowWatch, share_of_looks
from drkit.status.progress import Progress

NEVER = 1e6
"""Seconds: a look that took long."""


class Job:
    """A flow that waits for its return, or copies."""

    def __init__(self, flow: FlowSettings, progress: Progress | None) -> None:
        self.flow, self._progress = flow, progress
        self.asked = Event()

    @property
    def progress(self) -> Progress | None:
        found = self._progress
        self.asked.set()
        return found

    @progress.setter
    def progress(self, value: Progress | None) -> None:
        self._progress = value


class Collector:
    """Knows whether the target has no note since a turn."""

    def __init__(self, *, due: bool) -> None:
        self.is_note_due, self.is_note_whole = due, True


def watch_of(*, copies: bool) -> tuple[FlowWatch, Job]:
    clusters = {x: ClusterSettings(alias=x, bootstrap_servers="127.0.0.1:1") for x in ("a", "b")}
    flow = FlowSettings(source="a", target="b")
    progress: Any = object() if copies else None
    job = Job(flow, progress)
    return FlowWatch(Settings(clusters=clusters, flows=(flow,)), job, seconds=0.0), job


def paused(watch: FlowWatch, *, due: bool) -> Thread:
    collector: Any = Collector(due=due)
    thread = Thread(target=watch._pause, args=(NEVER, collector), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(("copies", "due"), [(True, True), (True, False), (False, True)])
def test_a_note_that_is_due_is_not_late(*, copies: bool, due: bool) -> None:
    """On a busy machine a look takes 10 s, and the next one came 100 s later: so late was PROTECTED said.

    A flow that waits for its return writes no note, however due it is.
    """
    watch, _ = watch_of(copies=copies)
    thread = paused(watch, due=due)
    thread.join(60.0 if copies and due else 0.2)
    assert thread.is_alive() is not (copies and due)
    watch.stop()
    thread.join(60.0)
    assert not thread.is_alive(), "it stops at once"


def test_a_flow_that_begins_is_looked_at() -> None:
    watch, job = watch_of(copies=False)
    thread = paused(watch, due=False)
    assert job.asked.wait(60.0)
    began: Any = object()
    job.progress = began
    thread.join(60.0)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("due", "whole", "share"), [(True, True, 0), (True, False, 0), (False, False, 2), (False, True, 10)]
)
def test_a_note_that_lacks_a_partition_s_age_is_made_again_soon(*, due: bool, whole: bool, share: float):
    assert share_of_looks(10, due=due, whole=whole) == share
    assert share_of_looks(0, due=due, whole=whole) == 0


def test_no_pause_is_longer_than_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of a costly look stood still for ten times its cost."""
    assert board._LONGEST_SECONDS <= 15.0
    monkeypatch.setattr(board, "_LONGEST_SECONDS", 0.1)
    watch, _ = watch_of(copies=False)
    thread = paused(watch, due=False)
    thread.join(10.0)
    assert not thread.is_alive()
