"""A flow that moves in parts: a group, a topic that no group reads, then the rest; and what does not move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

import pytest

from drkit.config import Settings
from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.proposal import Rehearsal
from drkit.failover.runs import all_steps
from drkit.failover.service import FailoverService
from drkit.failover.steps.opening import OpenStep
from drkit.failover.steps.snapshot import SnapshotStep
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.status.look import StatusCollector
from drkit.status.model import FlowStatus
from tests.support.failover.command import Said, drkit
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import fill

LOST = 7
LEFT_OUT = "groups or groups_exclude of the flow leave it out"


@dataclass
class Parts:
    """What happened."""

    world: World
    shared: Rehearsal
    """Of one group, whose clients follow the same file as all others."""
    whole: Said
    """A dry run of a switchover of everything, on the command line."""
    group: dict[str, Any]
    status: FlowStatus
    """When one group had moved, and the primary had records that were lost."""
    topic: dict[str, Any]
    rest: dict[str, Any]
    """When the primary did not answer any more."""
    again: Refused
    """When everything had moved."""
    after: FlowStatus
    endpoint: str


class Joined(SnapshotStep):
    """Groups commit for the first time when SNAPSHOT has ended."""

    def __init__(self, world: World) -> None:
        self.world = world

    def run(self, context: Context) -> StepResult:
        done = super().run(context)
        at = TopicPartition(self.world.name("orders"), 0)
        self.world.commit(self.world.source, self.world.name("late"), {at: 11})
        self.world.commit(self.world.source, f"late-{self.world.tag}", {at: 12})
        return done


class JoinedLast(OpenStep):
    """A group commits for the first time when positions have been moved."""

    def __init__(self, world: World) -> None:
        self.world = world

    def run(self, context: Context) -> StepResult:
        at = TopicPartition(self.world.name("orders"), 0)
        self.world.commit(self.world.source, self.world.name("last"), {at: 13})
        return super().run(context)


def looked(world: World) -> FlowStatus:
    settings = world.settings
    collector = StatusCollector(settings, settings.flows[0])
    try:
        return collector.look()
    finally:
        collector.close()


def without_primary(world: World) -> Settings:
    """The same flow, with nothing listening where the primary was."""
    plain = world.plain()
    plain["clusters"][world.source.alias]["bootstrap_servers"] = "127.0.0.1:1"
    return Settings.model_validate(plain)


def prepared(world: World) -> None:
    """Three topics, copied; then no replicator, a new topic, and groups that the flow leaves out."""
    names = {n: world.name(n) for n in ("orders", "pay", "quiet")}
    local = f"local-{world.tag}"
    for name in (*names.values(), local):
        world.create(world.source, name, 1, {"retention.ms": "-1"})
        fill(world.source, name, 20)
    at = {n: TopicPartition(t, 0) for n, t in names.items()}
    world.commit(world.source, world.name("shop"), {at["orders"]: 5})
    world.commit(world.source, world.name("cash"), {at["pay"]: 8})
    world.replicate()
    world.copied([*names.values()], {world.name("shop"): None, world.name("cash"): None})
    world.stop_replicating()
    world.commit(world.source, world.name("shop"), {TopicPartition(local, 0): 2})
    world.commit(world.source, f"alien-{world.tag}", {at["orders"]: 3})
    world.create(world.source, world.name("fresh"), 1, {})
    fill(world.source, names["orders"], LOST, first=20)


def moved(world: World, folder: Path) -> Parts:
    """In three failovers."""
    prepared(world)
    request, shop = RunRequest(accept_data_loss="for the test"), world.name("shop")
    way = {"kind": "file", "path": str(folder / "endpoint.json")}
    world.failover_fields["repoint"] = [way]
    with world.desk() as desk:
        shared = desk.rehearse([shop], request)
    whole = drkit(written(world, folder), "failover", "--all", "--planned", "--dry-run")
    world.failover_fields["repoint"] = [{**way, "groups": [shop, world.name("late")]}]
    joined = {s.name: s for s in (Joined(world), JoinedLast(world))}
    with world.desk(steps={**all_steps(), **joined}) as desk:
        group = desk.begin([shop], request)
    status = looked(world)
    with world.desk() as desk:
        topic = desk.begin((), request, topics=[world.name("quiet")])
    settings = without_primary(world)
    with FailoverService(settings, settings.flows[0]) as desk:
        rest = desk.begin((), request)
    with world.desk() as desk, pytest.raises(Refused) as caught:
        desk.begin((), request)
    endpoint = (folder / "endpoint.json").read_text(encoding="utf-8")
    return Parts(world, shared, whole, group, status, topic, rest, caught.value, looked(world), endpoint)


@pytest.fixture(scope="module")
def parts(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    folder = tmp_path_factory.mktemp("parts")
    world = World(source, target, folder)
    try:
        yield moved(world, folder)
    finally:
        world.close()


@pytest.mark.wide
def test_all_moves_what_no_failover_has_moved_and_names_the_rest(parts: Parts):
    name = parts.world.name
    assert [r["state"] for r in (parts.group, parts.topic, parts.rest)] == ["done"] * 3
    assert list(parts.group["topics"]) == [name("orders")]
    assert list(parts.topic["topics"]) == [name("quiet")], "no group reads it"
    assert list(parts.rest["topics"]) == [name("pay")]
    assert parts.rest["groups"]["moved"] == [name("cash")]
    assert not parts.rest["fence"]["proven"], "the primary was gone by then"
    assert parts.rest["moved_before"] == [name("orders"), name("quiet")]
    assert parts.again.code == "all_promoted"


@pytest.mark.wide
def test_status_knows_what_has_moved(parts: Parts):
    """What was lost is lost: of a topic that has moved the primary can lose nothing more."""
    assert parts.group["loss"]["records"] == LOST
    assert parts.status.promoted_topics == (parts.world.name("orders"),)
    assert parts.status.role != "promoted", "pay and quiet have not moved"
    assert parts.status.loss.records == 0
    assert parts.after.role == "promoted"


@pytest.mark.wide
def test_a_group_that_commits_first_while_a_failover_runs_moves_or_is_named(parts: Parts):
    world, report = parts.world, parts.group
    at = TopicPartition(world.name("orders"), 0)
    late, other = world.name("late"), f"late-{world.tag}"
    assert report["groups"]["late"] == [late]
    assert sorted(report["groups"]["moved"]) == [late, world.name("shop")]
    assert report["groups"]["positions"][late][str(at)][0] == 11
    assert world.committed(world.target, late).keys() == {at}
    assert report["outside"]["groups"][other] == LEFT_OUT
    notes = json.dumps(report["steps"])
    assert f"group {late} committed here after SNAPSHOT, and moves too" in notes
    assert f"group {other} reads topics that move, and remains" in notes
    last = world.name("last")
    assert "first committed there after TRANSLATE" in report["outside"]["groups"].get(last, ""), notes
    assert f"group {last} remains on {world.source.alias}" in notes
    assert world.committed(world.target, last) == {}


@pytest.mark.wide
def test_what_remains_is_named_in_the_dry_run_and_the_report(parts: Parts):
    world, tag = parts.world, parts.world.tag
    fresh, alien = world.name("fresh"), f"alien-{tag}"
    assert parts.whole.code == 3
    plan = parts.whole.data
    assert "failover-topics-not-copied" in [r["gate"] for r in plan["refused"]]
    said = [
        f"topic {fresh} remains: it has no copy yet",
        f"group {alien} reads topics that move, and remains: {LEFT_OUT}",
        f"{world.name('shop')} also reads local-{tag}, which remains: it needs both clusters",
    ]
    assert set(said) <= set(plan["notes"])
    assert all(line in parts.whole.err for line in said)
    report = parts.group["outside"]
    assert (report["not_copied"], report["torn"]) == (
        {fresh: "it has no copy yet"}, {world.name("shop"): [f"local-{tag}"]}
    )  # fmt: skip
    assert alien in report["groups"]
    assert parts.topic["outside"]["not_copied"] == {fresh: "it has no copy yet"}


@pytest.mark.wide
def test_one_group_is_not_moved_with_a_file_that_all_clients_follow(parts: Parts):
    refused = dict(parts.shared.refusals)["failover-repoint-others"]
    assert all(parts.world.name(n) in refused.evidence for n in ("cash", "pay", "quiet", "fresh"))
    assert json.loads(parts.endpoint)["term"] == parts.rest["term"], "the last one moved all clients"
    assert [w["name"] for w in _ways(parts.group)] == [w["name"] for w in _ways(parts.rest)]
    assert _ways(parts.topic) == [], "no client that follows the file reads it"


def _ways(report: dict[str, Any]) -> list[dict[str, Any]]:
    [step] = [s for s in report["steps"] if s["step"] == "REPOINT"]
    return [{"name": n} for n in step["notes"] if n.endswith(" repointed (changed)")]
