"""The history on a target: a record that is no entry is left out, and one drill of a flow runs at a time."""

from __future__ import annotations

from dataclasses import replace
import json
from pathlib import Path
from typing import Any

import pytest

from drkit.clock import wall_ms
from drkit.drill.entry import MISSED, DrillEntry, MadeItem
from drkit.drill.history import DrillHistory, DrillTopic, clean_up
from drkit.errors import Refused
from drkit.flow_state.names import drill_topic
from drkit.flow_state.processes import this_process
from tests.support.drill.production import plan_of
from tests.support.errors import coded
from tests.support.failover.world import World
from tests.support.flow_state.keys import KEYS
from tests.support.flows.produce import fill, producer
from tests.support.kafka.attacks import stored, write_again


def entry(world: World, **change: Any) -> DrillEntry:
    return DrillEntry.of(plan_of(world.settings), wall_ms(), None, this_process()).model_copy(update=change)


def write(world: World, topic: str, key: str, value: bytes | None) -> None:
    writer = producer(world.target)
    writer.produce(topic, value, key.encode(), partition=0)
    assert writer.flush(30) == 0


@pytest.mark.wide
def test_nothing_is_deleted_that_a_drill_did_not_make(world: World, tmp_path: Path) -> None:
    settings, victim = world.settings, f"{world.name('victim')}.internal"
    world.create(world.target, victim, 1, {})
    fill(world.target, victim, 3)
    topic = DrillTopic(settings.cluster(world.target.alias), world.source.alias)
    good = entry(world, verdict="aborted", cleanup_owed=True)
    topic.put(good)
    text = json.loads(good.model_dump_json())
    changes: list[dict[str, Any]] = [
        {"id": "../../../endpoint"},
        {"id": "20261101t000000-abcdef", "made": [["target", "topic", victim, ""]]},
        {"id": "20261101t000000-abcde1", "made": [["target", "group", world.name("shop"), ""]]},
    ]
    for change in changes:
        write(world, topic.name, change["id"], json.dumps(text | change).encode())
    write(world, topic.name, "20261101t000000-abcde2", good.model_dump_json().encode())
    for key, value in (("garbage", b"not json at all"), (good.id, b"{}"), (good.id, None)):
        write(world, topic.name, key, value)
    history = DrillHistory.of(settings)
    history.folder.mkdir(parents=True)
    assert [e.id for e in history.entries()] == [good.id]
    assert history.topics[first_flow(world)].dropped.count == 7
    before = set(tmp_path.rglob("*"))
    assert clean_up(settings, settings.flows[0], history) == {good.id: []}
    assert {path.name for path in set(tmp_path.rglob("*")) - before} <= {"entries", f"{good.id}.json"}
    assert not world.topic(world.target, victim).error


@pytest.mark.wide
def test_with_a_control_key_no_record_of_another_client_counts(world: World) -> None:
    target = world.settings.cluster(world.target.alias).with_control(KEYS)
    topic = DrillTopic(target, world.source.alias)
    begun = entry(world)
    failed = begun.model_copy(update={"verdict": "fail"})
    for known in (begun, failed):
        topic.put(known)
    passed = failed.model_copy(update={"verdict": "pass"}).model_dump_json().encode()
    for value in (passed, None):
        write(world, topic.name, begun.id, value)
    write_again(target, topic.name, stored(target, topic.name)[:1])
    for reader in (topic, DrillTopic(target, world.source.alias)):
        assert reader.load() == [failed]
        assert reader.dropped.count == 2, "the copy is reported as replayed"


@pytest.mark.wide
def test_a_second_machine_does_not_begin_a_drill_beside_another(world: World, tmp_path: Path) -> None:
    """Each due time has one entry, also with two schedulers."""
    settings = world.settings
    topic = DrillTopic(settings.cluster(world.target.alias), world.source.alias)
    first, other = (DrillHistory(tmp_path / name, {first_flow(world): topic}) for name in ("a", "b"))
    for history in (first, other):
        history.folder.mkdir()
    running = entry(world)
    first.begin(running)
    with pytest.raises(Refused, check=coded("drill_under_way")):
        other.begin(entry(world))
    first.put(running.model_copy(update={"verdict": "pass", "due_ms": 60_000}))
    with pytest.raises(Refused, check=coded("drill_due_time_taken")):
        other.begin(entry(world, due_ms=60_000))
    other.begin(entry(world, due_ms=120_000))
    dead = entry(world, holder=replace(this_process(), born=1), due_ms=180_000)
    first.put(dead)
    made = MadeItem("source", "topic", drill_topic(dead.id, "orders"))
    first.put(dead.model_copy(update={"made": (made,), "cleanup_owed": True}))
    missed = DrillEntry(
        name="weekly", kind="bubble", flow=dead.flow, verdict=MISSED, began_ms=240_000, due_ms=240_000
    )
    topic.put(*(missed.model_copy(update={"due_ms": 240_000 + n}) for n in range(2000)))
    assert len(other.entries()) == 2003


class OvertakenTopic(DrillTopic):
    """Another machine begins a drill right after this one has read the entries.

    :param other: the history of the other machine
    :param begun: its drill
    """

    other: DrillHistory
    begun: DrillEntry

    def load(self) -> list[DrillEntry]:
        entries = super().load()
        self.other.begin(self.begun)
        return entries


@pytest.mark.wide
def test_of_two_drills_that_begin_at_the_same_moment_one_is_refused(world: World, tmp_path: Path) -> None:
    """The overtaken one took the fenced producer for a lost target, and ran as well."""
    settings = world.settings
    place = settings.cluster(world.target.alias), world.source.alias
    topic, flow = OvertakenTopic(*place), first_flow(world)
    own, topic.other = (
        DrillHistory(tmp_path / "a", {flow: topic}),
        DrillHistory(tmp_path / "b", {flow: DrillTopic(*place)}),
    )
    topic.begun = entry(world)
    for history in (own, topic.other):
        history.folder.mkdir()
    with pytest.raises(Refused, check=coded("drill_under_way")):
        own.begin(entry(world))
    assert [e.id for e in topic.other.entries()] == [topic.begun.id]


def first_flow(world: World) -> str:
    return world.settings.flows[0].name
