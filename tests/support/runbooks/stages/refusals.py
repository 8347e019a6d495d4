"""Stages of refused failovers: what clears the refusal is a flag, or a person's work on the pair."""

from __future__ import annotations

from typing import Final

from drkit.endpoint import Endpoint
from drkit.journal.machine import StepName
from drkit.model import TopicPartition
from tests.support.errors import sentence
from tests.support.failover.control_key import KEYS
from tests.support.failover.journal_files import write
from tests.support.flows.produce import fill
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import Stages
from tests.support.waiting import eventually

STAGES: Final = Stages()
_GROUP: Final = "drkit failover --group G --dry-run"
_ALL: Final = "drkit failover --all --dry-run"
_PLANNED: Final = "drkit failover --all --planned --dry-run"
MOVED: Final = ("drkit status", "promoted")
"""The end of a refusal that a flag overrules: the topics have moved."""
_CHECK: Final = "drkit config check --connect"


@STAGES.of("failover-paused", _ALL)
def pause(scene: Scene) -> None:
    scene.copied(scene.world())
    scene.prepare('drkit watch pause --reason "maintenance"')


@STAGES.of("failover-live-members", _GROUP)
def read_on_the_standby(scene: Scene) -> None:
    world = scene.world()
    topic = scene.copied(world)
    consumer = world.consumer(world.target, scene.values["G"])
    scene.cleanups.callback(consumer.close)
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), what="a member")


@STAGES.of("failover-own-positions", _GROUP)
def commit_on_the_standby(scene: Scene) -> None:
    world = scene.world()
    topic = scene.copied(world)
    world.commit(world.target, scene.values["G"], {TopicPartition(topic, 0): 1})


@STAGES.of("failover-control-key", _ALL, sentence("state_unsigned"))
def configure_a_control_key(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    world.stop_replicating()
    key = scene.folder / "control.key"
    key.write_text(KEYS[0], encoding="utf-8")
    key.chmod(0o600)
    scene.tables["control"] = {"key_file": str(key)}


@STAGES.of("failover-data-loss", _ALL, sentence("rpo_exceeded"), branches=("no run is held",))
def lose_records(scene: Scene) -> None:
    world = scene.world()
    topic = scene.copied(world)
    world.stop_replicating()
    fill(world.source, topic, 7, first=100)
    world.failover_fields["rpo_seconds"] = 0.2


@STAGES.of("failover-no-quorum", _ALL)
def ask_for_three_observers(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    world.failover_fields["rpo_seconds"] = 600.0
    scene.tables["watch"] = {"observers": 3}
    scene.lose_primary(world)
    scene.codes[_CHECK] = 1
    scene.ends = MOVED


@STAGES.of("failover-signs-of-life", _ALL)
def cut_off_this_machine(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    world.failover_fields["rpo_seconds"] = 600.0
    scene.silence(world.source)
    scene.codes[_CHECK] = 1
    scene.ends = MOVED


@STAGES.of("failover-nothing-copied", _ALL)
def copy_nothing(scene: Scene) -> None:
    world = scene.world()
    world.create(world.source, world.name("orders"), 1, {})
    fill(world.source, world.name("orders"), 5)


@STAGES.of("failover-planned-not-possible", _PLANNED, sentence("no_replicator"))
def stop_the_replicator(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    world.stop_replicating()


@STAGES.of("failover-no-exact-position", _PLANNED, branches=("no run is held",))
def commit_past_the_end(scene: Scene) -> None:
    world = scene.world()
    topic = scene.copied(world)
    world.commit(world.source, scene.values["G"], {TopicPartition(topic, 0): 1000})
    scene.ends = MOVED


@STAGES.of(
    "failover-repoint-others",
    _GROUP,
    branches=("these clients are stopped, or do not follow it in truth",),
)
def follow_one_file(scene: Scene) -> None:
    world = scene.world()
    world.failover_fields["repoint"] = [{"kind": "file", "path": str(scene.folder / "endpoint.json")}]
    other = world.name("others")
    world.create(world.source, other, 1, {})
    fill(world.source, other, 5)
    world.commit(world.source, world.name("rest"), {TopicPartition(other, 0): 1})
    scene.copied(world)
    world.copied([other], {world.name("rest"): None})


@STAGES.of("failover-target-not-ready", _ALL, branches=("a copy was deleted",))
def delete_a_copy(scene: Scene) -> None:
    world = scene.world(on_target_deleted="new_generation")
    topic = scene.copied(world)
    world.stop_replicating()
    world.delete(world.target, topic)


@STAGES.of("failover-topics-not-copied", _PLANNED)
def leave_a_topic_out(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    other = world.name("foreign")
    for cluster in (world.target, world.source):
        world.create(cluster, other, 1, {})
        fill(cluster, other, 5)
    scene.values["TOPIC"] = other


@STAGES.of("failover-standby-begins-later", _PLANNED)
def delete_records_of_the_copy(scene: Scene) -> None:
    world = scene.world()
    topic = scene.copied(world)
    world.delete_records(topic, 0, 10, world.target)


@STAGES.of("failover-wrong-cluster", _ALL)
def lead_to_the_standby(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    scene.servers[world.source.alias] = world.target.bootstrap_servers
    scene.before[_CHECK] = scene.servers.clear


@STAGES.of("failover-journal-lost", "drkit failover --resume", sentence("journal_run_lost"))
def lose_the_journal(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    write(world.folder, "f11e", StepName.LOCK, StepName.SNAPSHOT)
    scene.after = (world.folder / "f11e.jsonl").unlink


@STAGES.of("failover-newer-term", "drkit failover --resume")
def know_a_newer_term(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    file = scene.folder / "endpoint.json"
    newer = Endpoint(99, world.source.alias, "an id", "here:9092")
    world.failover_fields["repoint"] = [{"kind": "file", "path": str(file)}]
    scene.type("drkit failover --all --yes", begun=lambda: file.write_text(newer.to_json()))
    scene.after = file.unlink
