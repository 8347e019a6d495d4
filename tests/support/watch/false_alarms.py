"""Kinds of trouble that are no loss of the primary.

A kind that leaves the primary's brokers alone has links and a flow of its own, so that several of them run
side by side on one pair of clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import json
from pathlib import Path
import subprocess
import sys
import threading
import uuid

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.detect.awake import AwakeClock
from drkit.detect.noticeboard import Noticeboard
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from tests.support.local.controller import active_controller
from tests.support.waiting import eventually
from tests.support.watch.undisturbed import CUT, FLOW, SLOW, Scene, Story, lookout, watch
from tests.support.watch.world import World

_ROOT = Path(__file__).parents[3]
_LATE_MS = 1000.0
"""Each way: an answer comes two seconds later."""
_HOUR = 3600.0
_ALLOWED_PAUSE_SECONDS = 4.0
"""Less than the confirmation of five seconds."""

# -- the primary is disturbed: one kind at a time ------------------------------------------------------


def long_pauses(scene: Scene, story: Story) -> None:
    """A broker, or all of them, pause for less than the confirmation, as in a garbage collection."""
    primary = scene.world.primary

    def pause() -> None:
        chosen = [scene.chance.choice(primary.brokers)] if scene.chance.random() < 0.5 else primary.brokers
        for broker in chosen:
            broker.freeze()
        scene.wait(0.5, _ALLOWED_PAUSE_SECONDS)
        for broker in chosen:
            broker.resume()
        scene.wait(1.0, 6.0)

    watch(scene, story, scene.world.settings(detection={}), pause)


def one_broker_down(scene: Scene, story: Story) -> None:
    """One broker of three is gone for longer than any confirmation."""

    def lose_one() -> None:
        broker = scene.chance.choice(scene.world.primary.brokers)
        scene.chance.choice([broker.kill, broker.terminate])()
        scene.wait(10.0, 40.0)
        broker.restart()
        scene.wait(2.0, 10.0)

    watch(scene, story, scene.world.settings(detection={}), lose_one)


def controller_failover(scene: Scene, story: Story) -> None:
    """The active controller is killed, again and again: others elect a new one."""
    primary = scene.world.primary

    def depose() -> None:
        controller = active_controller(primary)
        controller.kill()
        scene.wait(4.0, 8.0)
        controller.restart()
        scene.wait(1.0, 5.0)

    watch(scene, story, scene.world.settings(detection={}), depose)


def standby_down(scene: Scene, story: Story) -> None:
    """The standby is gone; the primary works."""
    standby = scene.world.standby

    def lose_it() -> None:
        if scene.chance.random() < 0.5:
            standby.freeze()
            scene.wait(5.0, 30.0)
            standby.resume()
        else:
            standby.kill()
            scene.wait(5.0, 30.0)
            standby.restart()
        scene.wait(3.0, 10.0)

    watch(scene, story, scene.world.settings(detection={}), lose_it)


# -- only the way to it, or who looks on: several kinds at the same time -----------------------------------


@contextmanager
def _own_flow(scene: Scene, role: str = "REPLICATION", wrong: Path | None = None) -> Iterator[World]:
    """A flow whose votes no observer of another kind hears; `role`: the listener of its replicator."""
    world = World(scene.world.primary, scene.world.standby, beat=1.0)
    world.base["clusters"][world.source]["bootstrap_servers"] = world.primary.bootstrap(role)
    world.replicate(wrong)
    try:
        yield world
    finally:
        world.close()


def _link(scene: Scene, story: Story, role: str, settings: Settings) -> None:
    link = scene.world.primary.link(role)

    def hurt() -> None:
        scene.chance.choice([link.cut, link.half_open, link.stall])()
        scene.wait(2.0, 40.0)
        link.restore()
        scene.wait(2.0, 15.0)

    watch(scene, story, settings, hurt)


def observer_cut_off(scene: Scene, story: Story) -> None:
    """The observer's link is cut; replication and applications continue."""
    with _own_flow(scene) as world:
        _link(scene, story, CUT, world.settings(CUT, detection={}))


def applications_cut_off(scene: Scene, story: Story) -> None:
    """The link of the applications, which the observer looks at too, is cut."""
    with _own_flow(scene) as world:
        servers = world.primary.bootstrap("PROBE")
        listener = {"cluster": world.source, "name": "applications", "bootstrap_servers": servers}
        _link(scene, story, "PROBE", world.settings("CLIENT", detection={"listeners": [listener]}))


def replicator_cut_off(scene: Scene, story: Story) -> None:
    """The replicator's link is cut; observers and applications reach the primary."""
    with _own_flow(scene, FLOW) as world:
        _link(scene, story, FLOW, world.settings("CLIENT", detection={}))


def replicator_dead(scene: Scene, story: Story) -> None:
    """The replicator is killed and stays away."""
    with _own_flow(scene) as world:

        def kill() -> None:
            world.dismiss_replicator()
            scene.wait(30.0, 60.0)
            world.replicate()
            scene.wait(5.0, 20.0)

        watch(scene, story, world.settings("CLIENT", detection={}), kill)


def slow_network(scene: Scene, story: Story) -> None:
    """Each answer comes two seconds late on the observer's link."""
    link = scene.world.primary.link(SLOW)

    def slow() -> None:
        link.slow(delay_ms=_LATE_MS)
        scene.wait(20.0, 60.0)
        link.slow()
        scene.wait(3.0, 10.0)

    with _own_flow(scene) as world:
        watch(scene, story, world.settings(SLOW, detection={}), slow)


def unknown_name(scene: Scene, story: Story) -> None:
    """One of the bootstrap names never resolves."""
    with _own_flow(scene) as world:
        plain = world.plain("CLIENT", detection={})
        table = plain["clusters"][world.source]
        table["bootstrap_servers"] = "no-such-host.invalid:9092," + table["bootstrap_servers"]
        watch(scene, story, Settings.model_validate(plain), lambda: scene.wait(1.0, 5.0))


def observer_lies(scene: Scene, story: Story) -> None:
    """One observer of three says that the primary is gone, with whatever it can add; one is right."""
    with _own_flow(scene) as world:
        _with_a_liar(scene, story, world)


def _with_a_liar(scene: Scene, story: Story, world: World) -> None:
    settings = world.settings("CLIENT", detection={}, watch={"observers": 3})
    clock = AwakeClock()
    board = Noticeboard(settings.cluster(world.target), settings.flows[0], clock, 5.0)
    run, sent = uuid.uuid4().hex, 0
    board.start()

    def lie() -> None:
        nonlocal sent
        sent += 1
        name = scene.chance.choice(["liar", f"o-{story.kind}"])
        board.publish(
            Vote.key(name),
            Vote(name, run, sent, wall_ms(), Sight.GONE, ("it burns",), 99.0, 600.0, 600.0, None, {}, "auto"),
        )
        scene.wait(0.5, 1.5)

    try:
        with lookout(settings, "o-right"):
            watch(scene, story, settings, lie)
    finally:
        board.stop()


def _clock(scene: Scene) -> Path:
    file = scene.folder / f"wrong-{uuid.uuid4().hex}"
    file.write_text("0", encoding="ascii")
    return file


def _jump(scene: Scene, wrong: Path) -> None:
    fresh = wrong.with_suffix(".new")
    fresh.write_text(str(scene.chance.choice([-_HOUR, 0.0, _HOUR])), encoding="ascii")
    fresh.replace(wrong)
    scene.wait(3.0, 20.0)


def replicator_clock_jumps(scene: Scene, story: Story) -> None:
    """The wall clock of the replicator, and with it that of the heartbeats, jumps by an hour."""
    wrong = _clock(scene)
    with _own_flow(scene, wrong=wrong) as world:
        watch(scene, story, world.settings("CLIENT", detection={}), lambda: _jump(scene, wrong))


def observer_clock_jumps(scene: Scene, story: Story) -> None:
    """The wall clock of one observer of three, a process of its own, jumps by an hour in either direction."""
    with _own_flow(scene) as world:
        _with_a_jump(scene, story, world)


def _with_a_jump(scene: Scene, story: Story, world: World) -> None:
    wrong, config = _clock(scene), scene.folder / f"{uuid.uuid4().hex}.toml"
    lines = [
        f'[clusters.{world.source}]\nbootstrap_servers = "{world.primary.bootstrap()}"',
        f'[clusters.{world.target}]\nbootstrap_servers = "{world.standby.bootstrap()}"',
        f'[[flows]]\nsource = "{world.source}"\ntarget = "{world.target}"\ntopics = ["{world.topic}"]',
        "[watch]\nobservers = 3",
    ]
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = [str(wrong), "drkit", "watch", "--json", "--observer", "o-jumps", "--config", str(config)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.watch.jumping", *words],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=_ROOT,
    )  # fmt: skip
    own = Story(story.kind)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:  # one for each change
            found = json.loads(line)
            own.add(0.0, "LOST" if found["primary_lost"] else found["verdict"], found["reason"], found["phi"])

    threading.Thread(target=read, daemon=True).start()
    settings = world.settings("CLIENT", detection={}, watch={"observers": 3})

    try:
        eventually(lambda: own.seconds, 60, "the process says something")
        watch(scene, story, settings, lambda: _jump(scene, wrong))
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    story.lost += own.lost
    story.longest_phi = max(story.longest_phi, own.longest_phi)
    story.seconds.update({f"its own: {name}": 0.0 for name in own.seconds})


Kind = Callable[[Scene, Story], None]
ALONE: Mapping[str, Kind] = {
    f.__name__: f for f in (long_pauses, one_broker_down, controller_failover, standby_down)
}
"""Kinds that disturb the whole primary or standby: no other kind may run meanwhile."""
BESIDE_OTHERS: Mapping[str, Kind] = {
    f.__name__: f
    for f in (
        observer_cut_off, applications_cut_off, replicator_cut_off, replicator_dead, slow_network,
        unknown_name, observer_lies, observer_clock_jumps, replicator_clock_jumps,
    )
}  # fmt: skip
