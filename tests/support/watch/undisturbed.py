"""The stage for trouble that is no loss of the primary, and a record of what observers made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import json
from pathlib import Path
import random
import threading
import time

from drkit.config import Settings
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ClusterSpec
from tests.support.waiting import eventually
from tests.support.watch.world import Lookout, World

CUT, SLOW, FLOW = "CUT", "SLOW", "FLOW"
"""Listeners of the kinds that hurt a link: each has a link of its own."""


def primary() -> LocalCluster:
    """Three brokers with a listener and a link for each kind that needs one."""
    linked = ("PROBE", "REPLICATION", CUT, SLOW, FLOW)
    return LocalCluster(ClusterSpec("primary", brokers=3, listeners=("CLIENT", *linked), linked=linked))


@dataclass
class Story:
    """What one observer said while it was disturbed."""

    kind: str
    minutes: float = 0.0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Verdict and reason → how long it was the verdict."""
    longest_phi: float = 0.0
    disturbances: int = 0
    lost: int = 0

    def add(self, seconds: float, verdict: str, reason: str, phi: float | None) -> None:
        """One look."""
        self.seconds[f"{verdict} {reason}"] += seconds
        self.longest_phi = max(self.longest_phi, phi or 0.0)
        self.lost += verdict == "LOST" or reason == "not_fenced_yet"

    def told(self) -> str:
        """One line for the log of a run."""
        seen = {
            name: round(seconds, 1) for name, seconds in sorted(self.seconds.items(), key=lambda s: -s[1])
        }
        return json.dumps({
            "kind": self.kind, "minutes": round(self.minutes, 1), "disturbances": self.disturbances,
            "verdicts": seen, "longest_phi": round(self.longest_phi, 1), "lost": self.lost,
        })  # fmt: skip


class Scene:
    """The clusters, one flow for the observers of most kinds, and the time at which it ends."""

    def __init__(self, world: World, seconds: float, folder: Path) -> None:
        self.world, self.seconds, self.folder = world, seconds, folder
        self.chance = random.Random(0)
        self._end = 0.0

    def of(self, kind: str) -> Scene:
        """The same for one kind."""
        made = Scene(self.world, self.seconds, self.folder)
        made.chance = random.Random(kind)
        return made

    def begin(self) -> None:
        """From now on its time runs."""
        self._end = time.monotonic() + self.seconds

    @property
    def goes_on(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self._end

    def wait(self, least: float, most: float) -> None:
        """Some time: the shorter the scene, the shorter; never beyond its end."""
        pause = self.chance.uniform(least, max(least, min(most, self.seconds / 6)))
        threading.Event().wait(max(0.0, min(pause, self._end - time.monotonic())))


@contextmanager
def observed(story: Story, lookout: Lookout) -> Iterator[None]:
    """Write down what an observer says, many times a second."""
    ended, began = threading.Event(), time.monotonic()

    def note() -> None:
        last = time.monotonic()
        while not ended.wait(0.1):
            moment, now = lookout.moment, time.monotonic()
            if moment is not None:
                verdict = moment.verdict
                lost = "LOST" if verdict.primary_lost else verdict.kind.name
                story.add(now - last, lost, str(verdict.reason), moment.picture.phi)
            last = now

    thread = threading.Thread(target=note, daemon=True)
    thread.start()
    try:
        yield
    finally:
        story.minutes = (time.monotonic() - began) / 60
        ended.set()
        thread.join()
        assert lookout.is_alive, "the observer's thread has ended"


@contextmanager
def lookout(settings: Settings, name: str) -> Iterator[Lookout]:
    """An observer with everything well, so that each alarm is of the disturbance."""
    made = Lookout(settings, name)
    made.start()
    try:
        eventually(lambda: made.moment is not None, 60, "a first look")
        made.settles()
        yield made
    finally:
        made.stop()


def watch(scene: Scene, story: Story, settings: Settings, disturb: Callable[[], None]) -> None:
    with lookout(settings, f"o-{story.kind}") as looking, observed(story, looking):
        scene.begin()
        while scene.goes_on:
            disturb()
            story.disturbances += 1
