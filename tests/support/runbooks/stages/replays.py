"""Stages of refused replays: a new primary alone, with an export of what the old one had."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
import uuid

from drkit.model import TopicPartition
from drkit.wire import Record
from tests.support.errors import sentence
from tests.support.flows.clusters import Clusters
from tests.support.flows.produce import producer
from tests.support.replay.world import ReplayWorld, run_of, tail
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import Stages

STAGES: Final = Stages()
_REPLAY: Final = "drkit replay --from manifest.json"
_DRY: Final = f"{_REPLAY} --dry-run"
_QUARANTINE: Final = f"{_REPLAY} --to-quarantine --dry-run"


class _Exported(NamedTuple):
    """A promoted topic, and what only the old primary had of it."""

    world: ReplayWorld
    topic: str
    copy: str
    """The topic's name on the new primary."""
    tail: list[Record]

    def export(self, scene: Scene, records: Sequence[Record] = (), partition: int = 0, run: str = "") -> str:
        """Export some records, or all of the tail; the page names this export from then on."""
        at = TopicPartition(self.topic, partition)
        manifest = self.world.export({at: list(records) or self.tail}, run)
        scene.values["manifest.json"] = manifest
        return manifest


def _promoted(scene: Scene, number: int = 5, **config: str) -> _Exported:
    world = ReplayWorld(scene.target, scene.folder / "exports")
    scene.cleanups.callback(world.close)
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    copy = world.promoted(topic, 1, {name.replace("_", "."): value for name, value in config.items()})
    scene.plain = lambda: _plain(world)
    return _Exported(world, topic, copy, tail(number))


def _plain(world: ReplayWorld) -> dict[str, Any]:
    clusters = {
        each.alias: {"bootstrap_servers": each.bootstrap_servers} for each in (world.source, world.target)
    }
    return {"clusters": clusters, "flows": [{"source": world.flow.source, "target": world.flow.target}]}


@STAGES.of("replay-another-export", _DRY)
def replay_two_exports_of_one_run(scene: Scene) -> None:
    made = _promoted(scene)
    manifest = made.export(scene)
    assert made.world.replay(manifest)
    moved = Path(manifest).parent.rename(scene.folder / "moved")
    made.export(scene, made.tail[:3], run=run_of(manifest))
    right = {"manifest.json": str(moved / "manifest.json")}
    scene.before[_DRY] = lambda: scene.values.update(right)


@STAGES.of(
    "replay-not-comparable",
    _DRY,
    sentence("replay_open_transaction"),
    branches=("a transaction was open",),
)
def leave_a_transaction_open(scene: Scene) -> None:
    scene.patch.setattr("drkit.replay.side.DECIDED_SECONDS", 0.5)
    made = _promoted(scene)
    client = producer(made.world.target, transactional_id=f"client-{made.topic}")
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(made.copy, b"open", b"open", partition=0)
    client.flush(30)
    made.export(scene)
    scene.before[_REPLAY] = client.commit_transaction


@STAGES.of("replay-not-taken", _REPLAY)
def take_small_records_only(scene: Scene) -> None:
    made = _promoted(scene, max_message_bytes="150")
    made.tail[2] = made.tail[2]._replace(value=b"x" * 400)
    made.export(scene)
    scene.before["drkit status"] = lambda: made.world.configure(
        made.world.target, made.copy, "max.message.bytes", "10000"
    )


@STAGES.of("replay-quarantine", _QUARANTINE)
def occupy_the_name(scene: Scene) -> None:
    made = _promoted(scene)
    name = f"{made.copy}.divergent.7"
    made.export(scene)
    made.world.create(made.world.target, name, 1, {})
    scene.before[_QUARANTINE] = lambda: made.world.delete(made.world.target, name)


@STAGES.of("replay-same-or-other", _DRY, branches=("equal records are the same ones",))
def send_some_again(scene: Scene) -> None:
    made = _promoted(scene)
    made.world.write(made.copy, made.tail[:2])
    made.export(scene)


@STAGES.of("replay-taken", _DRY, sentence("keep_under_way"))
def begin_to_keep_the_tail(scene: Scene) -> None:
    made = _promoted(scene, 20)
    manifest = made.export(scene)
    assert made.world.process(manifest, kill=9, piece=5, kept=True).outcome()["killed"]
    scene.before[_DRY] = lambda: made.world.replay(manifest, kept=True)


@STAGES.of("replay-wrong-place", _DRY, sentence("replay_fewer_partitions"))
def export_another_partition(scene: Scene) -> None:
    made = _promoted(scene)
    made.export(scene, partition=1)
    grow = Clusters.grow
    scene.before["drkit status"] = lambda: grow(made.world, made.world.target, made.copy, 2)
