"""Stages of ``drkit watch``: it holds a failover, or cannot see."""

from __future__ import annotations

from typing import Final

from drkit.clock import wall_ms
from drkit.detect.note_kinds import Automatic
from drkit.detect.noticeboard import put_note
from drkit.flow_state.records import SourceSeenRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.offsets.mm2_records import Heartbeat
from tests.support.failover.control_key import KEYS
from tests.support.failover.world import World
from tests.support.flows.produce import fill, producer
from tests.support.runbooks.scene import QUICK, Scene
from tests.support.runbooks.stage import Stages

STAGES: Final = Stages()
_WATCH: Final = "drkit watch --once 1"
_CHECK: Final = "drkit config check --connect"
_CANARY: Final = "drkit-canary.internal"


def _watched(scene: Scene, **flow: object) -> World:
    """Copy a topic of a flow that quick observers watch."""
    world = scene.world(**flow)
    scene.copied(world)
    scene.tables["detection"] = QUICK
    world.failover_fields["rpo_seconds"] = 600.0
    return world


@STAGES.of("hold-paused", _WATCH)
def pause(scene: Scene) -> None:
    scene.lose_primary(_watched(scene))
    scene.prepare('drkit watch pause --reason "maintenance"')


@STAGES.of("hold-replication-moves", _WATCH)
def cut_off_this_observer(scene: Scene) -> None:
    scene.silence(_watched(scene).source)
    scene.before["drkit watch --once 10"] = scene.servers.clear


@STAGES.of("hold-blind", _WATCH)
def break_the_name(scene: Scene) -> None:
    world = _watched(scene)
    scene.servers[world.source.alias] = "no-such-host.invalid:9092"
    scene.before[_CHECK] = scene.servers.clear


@STAGES.of("hold-wrong-cluster", _WATCH)
def lead_to_the_standby(scene: Scene) -> None:
    world = _watched(scene)
    scene.servers[world.source.alias] = world.target.bootstrap_servers
    scene.codes[_CHECK] = 3
    scene.after = scene.servers.clear


@STAGES.of("hold-target-unreachable", _WATCH)
def cut_off_both(scene: Scene) -> None:
    world = _watched(scene)
    scene.silence(world.source, world.target)
    scene.codes[_CHECK] = 1
    scene.after = scene.servers.clear


@STAGES.of("hold-heartbeats-unknown", _WATCH)
def emit_no_heartbeats(scene: Scene) -> None:
    world = scene.world(emit_heartbeats=False, heartbeats_replication=False)
    scene.copied(world)
    scene.tables["detection"] = QUICK
    scene.lose_primary(world)
    scene.after = scene.servers.clear


@STAGES.of("hold-lag-above-rpo", _WATCH)
def lose_more_than_the_budget(scene: Scene) -> None:
    world = _watched(scene)
    world.failover_fields["rpo_seconds"] = 0.2
    scene.lose_primary(world)


@STAGES.of("hold-lag-unknown", _WATCH)
def note_nothing_of_the_ends(scene: Scene) -> None:
    world = _watched(scene)
    topic = scene.values["TOPIC"]
    world.stop_replicating()
    fill(world.source, topic, 7, first=100)
    scene.silence(world.source)
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        state.delete(SourceSeenRecord)


@STAGES.of("hold-no-quorum", _WATCH)
def ask_for_three_observers(scene: Scene) -> None:
    world = _watched(scene)
    scene.tables["watch"] = {"observers": 3}
    scene.lose_primary(world)


@STAGES.of("hold-writes-refused", _WATCH)
def refuse_the_canary(scene: Scene) -> None:
    world = _watched(scene)
    scene.prepare(_WATCH)  # it creates the topic
    world.configure(world.source, _CANARY, "max.message.bytes", "0")
    repair = lambda: world.configure(world.source, _CANARY, "max.message.bytes", "1048588")  # noqa: E731  named
    scene.cleanups.callback(repair)
    scene.after = repair


@STAGES.of("hold-clocks-disagree", _WATCH)
def write_a_heartbeat_of_the_future(scene: Scene) -> None:
    world = _watched(scene)
    scene.lose_primary(world)
    beat = Heartbeat(world.source.alias, world.target.alias, wall_ms() + 3_600_000)
    out = producer(world.target)
    out.produce(f"{world.source.alias}.heartbeats", beat.value, beat.key, partition=0)
    assert out.flush(30) == 0


def _automatic(scene: Scene) -> World:
    """Lose the primary in mode auto; the third cluster is the primary's by another name."""
    world = scene.world()
    key = scene.folder / "control.key"
    key.write_text(KEYS[0], encoding="utf-8")
    key.chmod(0o600)
    world.control_fields = {"key_file": str(key)}
    world.target = world.settings.cluster(world.target.alias)
    scene.copied(world)
    world.failover_fields |= {"rpo_seconds": 600.0, "mode": "auto"}
    scene.tables |= {
        "detection": QUICK,
        "clusters": {"witness": {"bootstrap_servers": world.source.bootstrap_servers}},
        "watch": {"observers": ["o1", "o2", "o3"], "third": "witness", "vote_interval_seconds": 0.5},
        "fence_agent": {"agents": ["dc1"], "command": ["true"]},
    }
    scene.lose_primary(world)
    scene.observe("o1")
    scene.observe("o2")
    return world


@STAGES.of("hold-no-fence-agent", _WATCH)
def run_no_fence_agent(scene: Scene) -> None:
    _automatic(scene)


@STAGES.of("hold-not-acknowledged", _WATCH)
def act_before(scene: Scene) -> None:
    world = _automatic(scene)
    earlier = Automatic("o1", "earlier", wall_ms() - 30 * 86_400_000)
    put_note(Cluster.connect(world.target), world.settings.flows[0], Automatic.KEY, earlier.to_json())
