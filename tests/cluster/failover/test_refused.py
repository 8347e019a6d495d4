"""What is refused before anything is changed: reason, evidence, what clears it, exit code 3, and nothing
changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
import json
from pathlib import Path
import re
from typing import Any

import pytest

from drkit.config import Settings
from drkit.errors import ConfigError, DrkitError, Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.service import FailoverService
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.names import journal_topic
from drkit.flow_state.records import ClustersRecord, ReturnRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Groups
from drkit.kafka.topics import delete_topics
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from drkit.watch import automatic
from tests.support.errors import coded
from tests.support.failover import command
from tests.support.failover.journal_files import write
from tests.support.failover.settings_file import drkit, written
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.stored import put as put_record
from tests.support.stored import stored
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def world(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    made = World(source, target, tmp_path_factory.mktemp("journal"))
    for name in ("orders", "payments", "gone"):
        made.create(made.source, made.name(name), 1, {})
        fill(made.source, made.name(name), 20)
    at = {name: TopicPartition(made.name(name), 0) for name in ("orders", "payments", "gone")}
    made.commit(made.source, made.name("shop"), {at["orders"]: 5})
    made.commit(made.source, made.name("both"), {at["orders"]: 7, at["payments"]: 8})
    made.commit(made.source, made.name("lost"), {at["gone"]: 3})
    made.replicate()
    made.copied([made.name(n) for n in ("orders", "payments", "gone")], {made.name("both"): None})
    yield made
    made.close()


def changed(world: World) -> dict[str, Any]:
    """All that a failover changes."""
    state = {k: v for k, v in world.state().items() if k.startswith(("role/", "promotion"))}
    committed = {g: world.committed(world.target, world.name(g)) for g in ("shop", "both")}
    offsets = {g: {at: c.offset for at, c in o.items()} for g, o in committed.items()}
    is_there = not world.topic(world.target, journal_topic(world.source.alias)).error
    return {"state": state, "offsets": offsets, "journal": is_there}


def refused(
    world: World, group: str = "shop", settings: Settings | None = None, **request: Any
) -> DrkitError:
    """Begin a failover that must be refused, and see that nothing has changed."""
    before = changed(world)
    settings = settings or world.settings
    with FailoverService(settings, settings.flows[0]) as desk, pytest.raises(Refused) as caught:
        desk.begin([world.name(group)], RunRequest(**request))
    assert changed(world) == before
    error = caught.value
    assert error.exit_code == 3
    assert all((error.what, error.where, error.evidence, error.hint))
    return error


# P38
def test_a_live_member_on_the_target(world: World) -> None:
    consumer = world.consumer(world.target, world.name("shop"))
    consumer.subscribe([world.name("orders")])
    try:
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), what="a member")
        error = refused(world)
    finally:
        consumer.close()
    assert error.code == "members_on_target"
    assert "--evict-members" in error.hint


@pytest.mark.wide
def test_a_static_member_that_has_closed(world: World) -> None:
    group = world.name("both")
    consumer = world.consumer(world.target, group, group_instance_id="one", session_timeout_ms="6000")
    consumer.subscribe([world.name("payments")])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), what="a member")
    consumer.close()
    error = refused(world)  # `both` reads the topic of `shop`, so it moves too
    assert "static member one" in error.evidence
    eventually(lambda: not _members(world, group), 30, "the end of the session")


def _members(world: World, group: str) -> bool:
    with world.desk() as desk:
        found = desk.rehearse([group], RunRequest()).survey.target_groups[group]
    return bool(found.members)


def test_a_file_with_another_alias_of_the_target(world: World) -> None:
    """FREEZE, and the lease of another replicator, fence transactional ids that contain the alias."""
    alias, plain = world.target.alias, world.plain()
    plain["clusters"]["renamed"] = plain["clusters"].pop(alias)
    plain["flows"] = [{**world.flow_fields, "target": "renamed"}]
    settings = Settings.model_validate(plain)
    flow, target = settings.flows[0], settings.cluster("renamed")
    before = changed(world)
    with pytest.raises(Refused, check=coded("target_renamed")) as caught, FailoverService(settings, flow):
        pass
    assert (changed(world), alias in caught.value.hint) == (before, True)
    with closing(PairedCollector(settings, flow, groups=False)) as collector:
        pair = collector.look().pair
    assert pair is not None
    assert (pair.state, alias in pair.reason) == (PairState.UNKNOWN, True)
    with StateTopic(target, flow.source) as state, pytest.raises(Refused, check=coded("target_renamed")):
        FlowLease(target, flow, state, "renamed").look()


# P38
@pytest.mark.wide
def test_more_than_the_budget_is_missing(world: World) -> None:
    world.stop_replicating()
    fill(world.source, world.name("orders"), 7, first=20)
    world.failover_fields["rpo_seconds"] = 0.2

    def late() -> bool:
        with world.desk() as desk:
            seconds = desk.rehearse([world.name("shop")], RunRequest()).survey.risk.seconds
        return seconds is not None and seconds > 0.2

    try:
        eventually(late, what="records older than the budget")
        error = refused(world)
        assert error.code == "rpo_exceeded"
        assert re.search(r"7 records known to be missing; counted on the source", error.evidence)
        assert refused(world, planned=True).code == "no_replicator"
    finally:
        world.failover_fields.pop("rpo_seconds")
        world.replicate()
        world.copied([world.name("orders")])


def test_the_loss_is_unknown(world: World) -> None:
    """The source is silent and no heartbeat ever came, so the loss is unknown."""
    silent = world.plain()
    silent["clusters"][world.source.alias]["bootstrap_servers"] = "127.0.0.1:1"
    silent["flows"][0]["separator"] = "_"  # its heartbeats would be in another topic
    silent["flows"][0]["naming"] = "prefix"
    error = refused(world, settings=Settings.model_validate(silent))
    assert error.code == "loss_unknown"
    assert "no heartbeat" in error.evidence


@pytest.mark.wide
def test_paused(world: World) -> None:
    settings = world.settings
    automatic.pause(settings, settings.flows[0], "ana", "maintenance")
    try:
        error = refused(world)
        assert error.evidence == "paused by ana: maintenance"
        assert error.hint.startswith("drkit watch resume")
    finally:
        automatic.resume(settings, settings.flows[0])


# P38
def test_another_cluster_behind_a_name(world: World) -> None:
    twice = world.plain()
    twice["clusters"][world.source.alias]["bootstrap_servers"] = world.target.bootstrap_servers
    error = refused(world, settings=Settings.model_validate(twice))
    assert error.code == "clusters_identical"
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        right = stored(state)[ClustersRecord.KEY]
        put_record(state, ClustersRecord.KEY, {**right, "source": "another"})
        try:
            error = refused(world)
        finally:
            put_record(state, ClustersRecord.KEY, right)
    assert error.code == "wrong_cluster"
    assert "the flow ran with another" in error.evidence


@pytest.mark.wide
def test_a_target_without_the_topic(world: World) -> None:
    delete_topics(Cluster.connect(world.target), [world.name("gone")])
    eventually(lambda: world.topic(world.target, world.name("gone")).error == 3, what="its end")
    error = refused(world, "lost")
    assert error.code == "target_not_ready"
    assert "does not exist" in error.evidence


# P38
def test_a_group_that_has_worked_on_the_target(world: World) -> None:
    at = TopicPartition(world.name("orders"), 0)
    there = world.committed(world.target, world.name("shop"))[at]
    world.commit(world.target, world.name("shop"), {at: 1})
    try:
        error = refused(world)
        assert error.code == "group_worked_on_target"
        assert "--keep-positions" in error.hint
    finally:
        world.ask(world.target, lambda raw: _alter(raw, world.name("shop"), at, there))


def test_a_group_without_an_exact_position_stops_a_switchover_before_the_fence(world: World) -> None:
    """It has committed past the end of the log, so no copy will ever have its position."""
    at, shop = TopicPartition(world.name("orders"), 0), world.name("shop")
    before = world.committed(world.source, shop)[at]
    world.commit(world.source, shop, {at: 1000})
    try:
        error = refused(world, planned=True)
        assert error.code == "no_exact_position"
        assert f"group {shop}, {at}: source offset 1000 is past the end" in error.evidence
        assert error.hint.startswith("drkit translate --group ")
        assert error.hint.endswith(': --accept-data-loss "REASON"'), "no run is there to resume"
        request = RunRequest(planned=True, accept_data_loss="it is not used any more")
        with world.desk() as desk:
            found = desk.rehearse([shop], request)
        assert list(found.survey.never_placed) == [shop]
        assert not found.refusals
    finally:
        world.ask(world.source, lambda raw: _alter(raw, shop, at, before))


@pytest.mark.wide
def test_a_group_that_works_on_the_side_of_a_return(world: World) -> None:
    """Whatever is asked: kept where it is, it would repeat or skip records."""
    at, shop = TopicPartition(world.name("orders"), 0), world.name("shop")
    there = world.committed(world.target, shop)[at]
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        state.put(ReturnRecord("before", "return", 1), at.topic)
        world.commit(world.target, shop, {at: 1})
        try:
            for keep in (False, True):
                error = refused(world, keep_positions=keep)
                assert error.code == "group_on_old_side"
                assert "--keep-positions" not in error.hint
        finally:
            state.delete(ReturnRecord, at.topic)
            world.ask(world.target, lambda raw: _alter(raw, shop, at, there))


async def _alter(raw: Any, group: str, at: TopicPartition, committed: Any) -> None:
    await Groups(raw).alter({group: {at: committed}})


def test_an_unknown_group(world: World) -> None:
    with world.desk() as desk, pytest.raises(ConfigError, check=coded("group_unknown")) as caught:
        desk.begin([world.name("shopp")], RunRequest())
    assert world.name("shop") in caught.value.hint
    with world.desk() as desk, pytest.raises(ConfigError, check=coded("no_run")) as caught:
        desk.resume(RunRequest())
    assert "resume" in str(caught.value)


def test_a_journal_that_is_gone_while_its_file_is_here(world: World, tmp_path: Path) -> None:
    file = written(world, tmp_path)
    write(world.folder, "f11e", StepName.LOCK, StepName.SNAPSHOT)
    for verb in ("--resume", "--abort"):
        said = command.drkit(file, "failover", verb)
        assert said.code == 3
        assert "steps that ended: LOCK, SNAPSHOT" in said.err
        assert str(world.folder / "f11e.jsonl") in said.err
    (world.folder / "f11e.jsonl").unlink()
    said = command.drkit(file, "failover", "--resume")
    assert said.code == 2
    assert said.error == "no_run", said.err


def test_the_command_says_what_moves_and_changes_nothing_in_a_dry_run(world: World, tmp_path: Path) -> None:
    before = changed(world)
    file = written(world, tmp_path)
    done = drkit(file, "failover", "--group", world.name("shop"), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert steps[0]["step"] == "LOCK"
    told = " ".join(s["what"] for s in steps)
    assert f"group {world.name('shop')}" in told
    assert f"promote {world.name('orders')}" in told
    assert changed(world) == before
    asked = drkit(file, "failover", "--group", world.name("shop"))
    assert asked.returncode != 0
    assert f"move too: {world.name('both')}" in asked.stderr
    assert f"{world.name('both')} also reads {world.name('payments')}" in asked.stderr
    assert changed(world) == before
    assert drkit(file, "failover").returncode == 2
    assert drkit(file, "failover", "--all", "--resume").returncode == 2


def test_a_dry_run_warns_that_no_flow_back_is_configured(world: World, tmp_path: Path) -> None:
    file = written(world, tmp_path)
    words = ("failover", "--group", world.name("shop"), "--dry-run", "--json")
    there, back = (world.source.alias, world.target.alias), (world.target.alias, world.source.alias)
    one = drkit(file, *words)
    assert one.returncode == 0, one.stderr
    assert json.loads(one.stdout)["flow_back"] is None
    (warning,) = (line for line in one.stderr.splitlines() if line.startswith("warning"))
    assert f"no flow back is configured: {there[1]} stays unprotected" in warning
    added = re.search(r'source = "(.*?)", target = "(.*?)"', warning)
    assert added is not None
    assert added.groups() == back
    table = added[0].replace(", ", "\n")
    file.write_text(f"{file.read_text()}[[flows]]\n{table}\ntopics = []\n")
    both = drkit(file, *words, "--flow", "->".join(there))
    assert both.returncode == 0, both.stderr
    assert json.loads(both.stdout)["flow_back"] == "->".join(back)
    assert "no flow back" not in both.stderr
