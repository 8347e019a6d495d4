"""What happens to a primary that is well: pauses, rolling restarts, flapping links. None of it is a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import random
import threading
import time

from drkit.detect.reasons import Reason
from drkit.detect.verdict import VerdictKind
from tests.support.watch.world import Lookout, World

PAUSE_SECONDS = 3.0


def pause(world: World, _chance: random.Random) -> None:
    """Every broker is suspended for three seconds, as in a snapshot of its machine."""
    world.primary.freeze()
    threading.Event().wait(PAUSE_SECONDS)
    world.primary.resume()


def restart_one(world: World, chance: random.Random) -> None:
    """One broker of a rolling restart."""
    chance.choice(world.primary.brokers).restart()


def rolling_restart(world: World, _chance: random.Random) -> None:
    """Every broker, one after the other."""
    for broker in world.primary.brokers:
        broker.restart()


def flap(world: World, chance: random.Random) -> None:
    """The link of the probes goes up and down, never down for as long as a confirmation takes."""
    link = world.primary.link("PROBE")
    for _ in range(4):
        chance.choice([link.cut, link.half_open, link.stall])()
        threading.Event().wait(chance.uniform(0.3, 2.0))
        link.restore()
        threading.Event().wait(chance.uniform(0.5, 2.0))


ALL: Mapping[str, Callable[[World, random.Random], None]] = {
    "pause": pause, "restart": restart_one, "flap": flap, "rolling": rolling_restart,
}  # fmt: skip


def no_alarm(world: World, lookout: Lookout, name: str, chance: random.Random) -> None:
    """Disturb, wait until all is well again, and see that no alarm was raised."""
    began = time.monotonic()
    ALL[name](world, chance)
    lookout.sees(Reason.WELL, 90.0)
    told = [
        (round(s.at - began, 1), s.verdict.name, s.verdict.evidence) for s in lookout.changes if s.at > began
    ]
    assert lookout.worst_since(began) <= VerdictKind.DEGRADED, (name, told)
