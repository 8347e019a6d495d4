"""Stages of drills: one that fails, one that is overdue, one that was killed."""

from __future__ import annotations

from typing import Final
import uuid

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.drill.entry import DAY_MS, SOURCE, TARGET, DrillEntry, MadeItem
from drkit.drill.history import DrillHistory
from drkit.drill.plan import new_drill_id
from drkit.flow_state.names import drill_group, drill_topic
from drkit.kafka.groups.requests import Committed, Groups
from tests.support.drill.positions import move_by_one
from tests.support.failover.world import World
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import Stages

STAGES: Final = Stages()
_STATUS: Final = "drkit status"
_WEEKLY: Final = {"name": "weekly", "kind": "translation", "cron": "0 6 * * 1", "max_age_days": 8}


def _drilled(scene: Scene) -> World:
    """Create a flow with a copied topic and a weekly drill."""
    world = scene.world()
    scene.copied(world)
    plain = scene.plain
    scene.plain = lambda: plain() | {"drills": [_WEEKLY]}
    return world


def _history(scene: Scene) -> DrillHistory:
    return DrillHistory.of(Settings.model_validate(scene.configuration()))


def _put(scene: Scene, entry: DrillEntry) -> None:
    history = _history(scene)
    with history.lock():
        history.put(entry, everywhere=True)


@STAGES.of("drill-failed", _STATUS, "last verdict …")
def move_a_position(scene: Scene) -> None:
    world = _drilled(scene)
    world.stop_replicating()
    group = scene.values["G"]
    [(tp, right)] = world.committed(world.target, group).items()
    move_by_one(world, group)
    scene.prepare("drkit drill run weekly", 1)
    scene.values["ID"] = _history(scene).entries("weekly")[-1].id

    def move_back() -> None:
        offset = Committed(right.offset, right.metadata)
        world.ask(world.target, lambda raw: Groups(raw).alter({group: {tp: offset}}))

    scene.before["drkit drill run weekly"] = move_back


@STAGES.of("drill-overdue", _STATUS, "overdue")
def stop_the_scheduler(scene: Scene) -> None:
    world = _drilled(scene)
    flow = world.settings.flows[0].name
    began_ms = wall_ms() - 40 * DAY_MS
    passed = DrillEntry(
        id=new_drill_id(uuid.uuid4().hex, lambda: began_ms),
        name="weekly",
        kind="translation",
        flow=flow,
        verdict="pass",
        began_ms=began_ms,
    )
    _put(scene, passed)


@STAGES.of("drill-cleanup-owed", _STATUS, "cleanup owed")
def kill_a_bubble(scene: Scene) -> None:
    world = _drilled(scene)
    drill_id = new_drill_id(uuid.uuid4().hex)
    made = [
        MadeItem(SOURCE, "topic", drill_topic(drill_id, "orders")),
        MadeItem(TARGET, "topic", drill_topic(drill_id, "orders")),
        MadeItem(TARGET, "group", drill_group(drill_id, "shop")),
    ]
    world.create(world.target, drill_topic(drill_id, "orders"), 1, {})
    killed = DrillEntry(
        id=drill_id,
        name="bubble",
        kind="bubble",
        flow=world.settings.flows[0].name,
        verdict="aborted",
        began_ms=wall_ms(),
        made=tuple(made),
        cleanup_owed=True,
    )
    _put(scene, killed)
