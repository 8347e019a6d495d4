"""Stages of failovers that are held, and of work that is planned."""

from __future__ import annotations

from typing import Final

from drkit.flow_state.records import ReturnRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics, topic_names
from drkit.model import TopicPartition
from tests.support.errors import sentence
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import Stages
from tests.support.runbooks.stages.pairs import begin_transaction, hold_in_fence
from tests.support.waiting import eventually

STAGES: Final = Stages()
_STATUS: Final = "drkit status"
_RESUME: Final = "drkit failover --resume"
_DRY: Final = "drkit failover --all --dry-run"
_PLANNED: Final = "drkit failover --all --planned --dry-run"
_SWITCHOVER: Final = "drkit failover --flow 'primary->standby' --all --planned --dry-run"
_ABORTS: Final = {"fence": {"open_transactions": "abort", "transaction_wait_seconds": 0.3}}


def _held(scene: Scene) -> World:
    """Hold a switchover after its fence, until open transactions are aborted."""
    world = scene.world()
    hold_in_fence(scene, world, scene.copied(world))
    scene.before[_RESUME] = lambda: world.failover_fields.update(_ABORTS)
    return world


@STAGES.of("failover-open-transactions", _RESUME)
def hold_for_a_transaction(scene: Scene) -> None:
    _held(scene)


@STAGES.of("failover-another-orchestrator", "drkit failover --all --yes")
def begin_another(scene: Scene) -> None:
    _held(scene)


@STAGES.of("hold-run-held", "drkit watch --once 1")
def watch_a_held_run(scene: Scene) -> None:
    _held(scene)


@STAGES.of(
    "failover-fence-owned",
    "drkit fence lift",
    sentence("fence_owned", table="…"),
    branches=("a failover is under way",),
)
def own_the_fence(scene: Scene) -> None:
    _held(scene)


@STAGES.of("failover-still-takes-writes", _RESUME)
def fence_by_nothing(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    world.failover_fields["fence"] = {"means": "none", "seconds": 2.0}
    scene.prepare("drkit failover --all --planned --yes", 3)
    scene.before[_RESUME] = lambda: world.failover_fields.pop("fence")


@STAGES.of("failover-no-way-back", "drkit failover --abort --yes")
def fail_after_open(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    folder = scene.folder / "endpoints"
    world.failover_fields["repoint"] = [{"kind": "file", "path": str(folder / "endpoint.json")}]
    folder.mkdir()
    scene.type("drkit failover --all --planned --yes", begun=folder.rmdir)
    scene.before[_RESUME] = folder.mkdir


@STAGES.of("failover-target-away", _STATUS, "both_closed")
def lose_the_target(scene: Scene) -> None:
    world = _held(scene)
    scene.before.clear()
    scene.silence(world.target)

    def repair() -> None:
        scene.servers.clear()
        scene.prepare("drkit failover --abort --yes")

    scene.after = repair


@STAGES.of("failover-positions-in-return", _PLANNED)
def read_on_the_passive_side(scene: Scene) -> None:
    world = scene.world()
    topic = scene.copied(world)
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        state.put(ReturnRecord("before", "return", 1), topic)
    group = scene.values["G"]
    world.commit(world.target, group, {TopicPartition(topic, 0): 1})

    def delete_offsets() -> None:
        world._admins[world.target.alias].delete_consumer_groups([group])[group].result(30)
        eventually(lambda: world._synced(group), what="the group's position")

    scene.before["drkit status --all-groups"] = delete_offsets


@STAGES.of("hanging-transaction", _STATUS, "hanging_transaction")
def leave_a_transaction_open(scene: Scene) -> None:
    world = scene.world(open_transaction_seconds=1.0)
    topic = scene.copied(world)
    out = begin_transaction(scene, world, topic)
    scene.before["drkit status --json"] = lambda: out.abort_transaction(30)


@STAGES.of("planned-switchover", _SWITCHOVER, "would begin", branches=("the old primary has no authorizer",))
def work_on_the_primary(scene: Scene) -> None:
    pair = scene.pair()
    scene.copied(pair.now)
    scene.before["drkit replicate --flow 'standby->primary'"] = pair.now.stop_replicating


@STAGES.of("first-set-up", _STATUS)
def copy_nothing_yet(scene: Scene) -> None:
    world = scene.world()
    world.create(world.source, world.name("orders"), 1, {})
    fill(world.source, world.name("orders"), 5)
    world.commit(world.source, world.name("shop"), {TopicPartition(world.name("orders"), 0): 2})


@STAGES.of("lost-replicator", _STATUS)
def kill_the_replicator(scene: Scene) -> None:
    world = scene.world()
    scene.copied(world)
    world.stop_replicating()


@STAGES.of("lost-standby", _STATUS)
def replace_the_standby(scene: Scene) -> None:
    """The new cluster is the old one without anything of the flow."""
    world = scene.world()
    scene.copied(world)
    world.stop_replicating()
    scene.silence(world.target)

    def install() -> None:
        cluster = Cluster.connect(world.target)
        own = [t for t in topic_names(cluster) if world.tag in t]
        delete_topics(cluster, own)
        eventually(lambda: not [t for t in topic_names(cluster) if world.tag in t], what="an empty standby")
        scene.servers.clear()

    scene.before["drkit config check --connect"] = install
