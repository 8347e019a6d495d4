"""A run that is not alone: another machine has another file, another flow has the same primary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drkit.config import Settings
from drkit.errors import ClusterUnreachable, Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.pending_fences import apply_pending, lift, liftable
from drkit.failover.service import FailoverService
from drkit.failover.source_abort import abort_at_source
from drkit.flow_state.records import LeaseRecord, PromotionRecord
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.topology.topic_configs import MAX_MESSAGE_BYTES
from tests.support.errors import coded
from tests.support.failback.pair import Pair
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.failover.world import World, fan_out
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

SIZE = "2000123"
"""The size of a fanned out topic's batches, before a fence."""


def refusals(world: World, request: RunRequest) -> dict[str, str]:
    """Code of each refusal of a run of everything → where."""
    with world.desk() as desk:
        return {error.code: error.where for _, error in desk.rehearse([], request).refusals}


def copy_by(topic: str, *flows: World) -> None:
    """Create a topic on the source of some flows, and copy it by each."""
    flows[0].create(flows[0].source, topic, 1, {"retention.ms": "-1", MAX_MESSAGE_BYTES: SIZE})
    fill(flows[0].source, topic, 20)
    for flow in flows:
        flow.replicate()
        flow.copied([topic])


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_a_narrower_file_leaves_nothing_behind_unsaid(world: World) -> None:
    one, two, inside, outside = (world.name(n) for n in ("one", "two", "inside", "outside"))
    for topic in (one, two):
        world.create(world.source, topic, 1, {"retention.ms": "-1"})
        fill(world.source, topic, 20)
    for group in (inside, outside):
        world.commit(world.source, group, {TopicPartition(one, 0): 5})
    world.replicate()
    world.copied([one, two], {inside: None, outside: None})
    wide = {key: world.flow_fields[key] for key in ("topics", "groups")}
    world.flow_fields |= {"topics": [one], "groups": [inside]}

    planned = RunRequest(planned=True)
    for request in (planned, RunRequest(accept_data_loss="test")):
        assert set(names(refusals(world, request)["left_by_configuration"])) == {two, outside}
    request = planned._replace(leave_behind=(two, outside))
    assert refusals(world, request) == {}
    with world.desk() as desk:
        report = desk.begin([], request)
    assert report["state"] == "done", report
    assert report["topics"].keys() == {one}
    assert report["outside"]["differs"] == ["topics", "groups"]
    assert two in report["outside"]["not_copied"]
    assert PromotionRecord.KEY not in world.state(), "the flow goes on with the other topic"

    world.flow_fields |= wide
    fill(world.source, two, 20, first=20)
    eventually(lambda: len(world.records(world.target, two)[0]) == 40, 60, world.said)
    assert refusals(world, planned).keys() <= {"group_worked_on_target"}
    with world.desk() as desk:
        report = desk.begin([], planned._replace(keep_positions=True))
    assert (report["state"], report["topics"].keys()) == ("done", {two})
    assert PromotionRecord.KEY in world.state()


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_the_file_of_a_replicator_that_stopped_is_compared(world: World) -> None:
    topic, inside, outside = (world.name(n) for n in ("one", "inside", "outside"))
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, 20)
    for group in (inside, outside):
        world.commit(world.source, group, {TopicPartition(topic, 0): 5})
    world.replicate()
    world.copied([topic], {inside: None, outside: None})
    assert world.end_replicating() == 0
    assert LeaseRecord.KEY not in world.state(), "its lease is released"
    world.flow_fields["groups"] = [inside]
    assert names(refusals(world, RunRequest(accept_data_loss="test"))["left_by_configuration"]) == [outside]


@pytest.fixture
def reports(
    world: World, module_cluster: ModuleClusters, source: LocalCluster, tmp_path: Path
) -> Iterator[World]:
    """A flow from the same primary to a third cluster."""
    flow = World(source, module_cluster("reports"), tmp_path / "journal", tag=world.tag, sides="ac")
    yield flow
    flow.close()


def names(where: str) -> list[str]:
    """The names in ``flow: a, b``."""
    return where.partition(": ")[2].split(", ")


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_a_second_failover_of_one_primary_is_refused(world: World, reports: World) -> None:
    """Its flows to two clusters copy the same topic."""
    topic = world.name("fan")
    copy_by(topic, world, reports)
    with world.desk() as desk:
        assert desk.begin([], RunRequest(planned=True))["state"] == "done"
    settings = Settings.model_validate(fan_out(world, reports))
    with FailoverService(settings, settings.flows[0]) as desk:
        found = {e.code: e for _, e in desk.rehearse([], RunRequest(accept_data_loss="test")).refusals}
        assert found["promoted_elsewhere"].evidence == f"{topic}: {world.settings.flows[0].name}"
        overruled = RunRequest(accept_data_loss="test", despite_signs_of_life="test")
        assert "promoted_elsewhere" not in {e.code for _, e in desk.rehearse([], overruled).refusals}


UNPLANNED = RunRequest(accept_data_loss="test")
DESPITE = UNPLANNED._replace(despite_signs_of_life="the standby is lost")


def left_before_open(orchestrators: Orchestrators, plain: dict[str, Any], request: RunRequest) -> None:
    """Kill a failover of the first flow between FENCE and OPEN."""
    kill = Kill("DRAIN  intent", AFTER)
    left = orchestrators.run(plain, "begin", groups=[], request=request.to_json(), kill=kill)
    assert left.killed, left.error


def desk_of(plain: dict[str, Any]) -> FailoverService:
    settings = Settings.model_validate(plain)
    return FailoverService(settings, settings.flows[0])


def size_of(world: World, topic: str) -> str | None:
    return topic_configs(Cluster.connect(world.source), [topic])[topic][MAX_MESSAGE_BYTES].value


def keeps(world: World, topic: str) -> str:
    """Return the sentence of an abort that hands a fence over."""
    return f"another flow of {world.source.alias} keeps its fence of {topic}"


@pytest.mark.wide
@pytest.mark.timeout(400)
@pytest.mark.parametrize("both", [False, True])
def test_two_failovers_that_begin_at_once_open_one_cluster(
    world: World,
    reports: World,
    both: bool,  # noqa: FBT001  of pytest
) -> None:
    """To two clusters, typed on two machines: neither sees the other when it begins."""
    topic, request = world.name("fan"), RunRequest(planned=True)
    copy_by(topic, world, reports)
    plains = fan_out(reports, world), fan_out(world, reports)
    more: dict[str, Any] = {"groups": [], "request": request.to_json()}
    with Orchestrators() as orchestrators:
        slow = orchestrators.start(plains[0], "begin", freeze=Kill("FENCE record intent", AFTER), **more)
        at = Kill("DRAIN  result", AFTER) if both else None
        other = orchestrators.start(plains[1], "begin", freeze=at, **more)
        if not both:
            assert other.outcome().report is not None
        slow.wake()
        first = slow.outcome()
        if both:
            other.wake()
        outcomes = first, other.outcome()
    done = [(o.report or {}).get("state") == "done" for o in outcomes]
    assert sum(done) <= 1, "two clusters are open"
    for outcome, plain in zip(outcomes, plains, strict=True):
        if outcome.error is not None:
            assert outcome.error["code"] == "promoted_elsewhere", outcome.error
            with desk_of(plain) as desk:
                if desk.under_way is not None:
                    assert desk.abort("for the test")["state"] == "aborted"
    [refused] = answers(world.source, topic, [b"x"])
    assert (refused is not None) is any(done), "the fence of the old primary"


@pytest.mark.wide
@pytest.mark.timeout(400)
@pytest.mark.parametrize("planned", [False, True])
def test_a_fence_of_two_flows_stays_where_one_moved_the_topic(
    world: World, reports: World, *, planned: bool
) -> None:
    """An abort of the run that was left would open the primary beside the cluster that was promoted.

    The file of the second flow does not name the standby.
    """
    topic, first = world.name("fan"), RunRequest(planned=True) if planned else UNPLANNED
    copy_by(topic, world, reports)
    both = fan_out(reports, world)
    with Orchestrators() as orchestrators:
        left_before_open(orchestrators, both, first)
    with desk_of(fan_out(world, reports)) as desk, pytest.raises(Refused, check=coded("promoted_elsewhere")):
        desk.begin([], UNPLANNED)
    with reports.desk() as desk:
        assert desk.begin([], UNPLANNED if planned else DESPITE)["state"] == "done"
    if planned:
        silent, settings = ClusterUnreachable("cluster_silent", alias="b", seconds=1), world.settings
        with pytest.raises(Refused, check=coded("no_planned_fence")):
            abort_at_source(settings, settings.flows[0], silent)
    with desk_of(both) as desk:
        report = desk.abort("for the test")
    assert (report["state"], report["next"]) == ("aborted", [keeps(world, topic)]), report
    assert size_of(world, topic) == "0"
    assert answers(reports.target, topic, [b"the new primary takes writes"]) == [None]
    with desk_of(both) as desk:
        assert apply_pending(desk) is None
        assert liftable(desk, [], "") == []
    with reports.desk() as desk:
        assert lift(desk, [], "for the test") == [topic]
    assert size_of(world, topic) == SIZE, "as before the first fence"


@pytest.mark.wide
@pytest.mark.timeout(400)
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("request_", [DESPITE, DESPITE._replace(planned=True)])
def test_a_fence_that_was_handed_over_is_lifted_at_the_source_where_the_target_is_lost(
    world: World, reports: World, request_: RunRequest, first: int
) -> None:
    """Of two runs one is rolled back, and the target of the other does not answer any more."""
    topic = world.name("fan")
    copy_by(topic, world, reports)
    both = [fan_out(reports, world), fan_out(world, reports)]
    with Orchestrators() as orchestrators:
        for plain in both:
            left_before_open(orchestrators, plain, request_)
    with desk_of(both[first]) as desk:
        report = desk.abort("for the test")
    assert (report["state"], report["next"]) == ("aborted", [keeps(world, topic)]), report
    assert size_of(world, topic) == "0"
    settings = Settings.model_validate(both[1 - first])
    silent = ClusterUnreachable("cluster_silent", alias="b", seconds=1)
    statement = "" if request_.planned else "its site burnt down"
    if statement:
        with pytest.raises(Refused, check=coded("open_unknown")):
            abort_at_source(settings, settings.flows[0], silent)
    report = abort_at_source(settings, settings.flows[0], silent, statement=statement)
    assert (report["lifted"], size_of(world, topic)) == ([topic], SIZE)


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_of_two_runs_that_were_left_the_last_one_lifts_the_fence(world: World, reports: World) -> None:
    topic, seen = world.name("fan"), []
    copy_by(topic, world, reports)
    both = [fan_out(reports, world), fan_out(world, reports)]
    with Orchestrators() as orchestrators:
        for plain in both:
            left_before_open(orchestrators, plain, DESPITE)
    for plain in both:
        with desk_of(plain) as desk:
            report = desk.abort("for the test")
        assert report["state"] == "aborted", report
        seen.append((size_of(world, topic), keeps(world, topic) in report["next"]))
    assert seen == [("0", True), (SIZE, False)]


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_a_promotion_by_another_flow_that_is_over_does_not_count(
    source: LocalCluster, target: LocalCluster, module_cluster: ModuleClusters, tmp_path: Path
) -> None:
    """Clients went to the third cluster and came back; its role stays on record there until its return."""
    pair = Pair(source, module_cluster("reports"), tmp_path / "journal")
    side = pair.now
    world = World(source, target, tmp_path / "journal", tag=side.tag, sides="ac")
    topic = side.name("fan")
    both = Settings.model_validate(fan_out(side, world))

    def elsewhere() -> dict[str, str]:
        """By the file of both flows, and by one that does not name the standby."""
        for settings in (both, world.settings):
            with FailoverService(settings, settings.flows[0]) as desk:
                seen = desk.rehearse([], RunRequest(accept_data_loss="test")).survey
            found.append(dict(seen.moved_elsewhere))
        assert found[-1] == found[-2]
        return found[-1]

    found: list[dict[str, str]] = []
    try:
        copy_by(topic, world, side)
        assert world.end_replicating() == 0
        side.protected([topic])
        assert pair.switch()["state"] == "done"
        assert elsewhere() == {topic: side.settings.flows[0].name}
        assert pair.reprotect()["state"] == "done"
        back = pair.now
        back.replicate()
        back.copied([topic])
        back.protected([topic])
        assert pair.switch()["state"] == "done"
        assert elsewhere() == {}
    finally:
        world.close()
        pair.close()


@pytest.mark.timeout(400)
def test_a_file_that_does_not_name_the_new_primary_opens_no_second_one(world: World, reports: World) -> None:
    """The files of two machines have one flow each: only the primary has a record of both."""
    topic, planned = world.name("fan"), RunRequest(planned=True)
    copy_by(topic, world, reports)
    more: dict[str, Any] = {"groups": [], "request": planned.to_json()}
    with Orchestrators() as orchestrators:
        slow = orchestrators.start(world.plain(), "begin", freeze=Kill("FREEZE  result", AFTER), **more)
        with reports.desk() as desk:
            assert desk.begin([], planned)["state"] == "done"
        slow.wake()
        error = slow.outcome().error
    assert error is not None, "two clusters are open"
    assert error["code"] == "promoted_elsewhere"
    with world.desk() as desk:
        assert desk.abort("for the test")["state"] == "aborted"
    [refused] = answers(world.source, topic, [b"x"])
    assert refused is not None, "the fence of the old primary"
    assert refusals(world, planned)["promoted_elsewhere"]


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_the_end_of_a_chain_is_not_opened_while_clients_write_at_its_beginning(
    source: LocalCluster, target: LocalCluster, module_cluster: ModuleClusters, tmp_path: Path
) -> None:
    """From a to b to c: the source of the second flow is the standby of the first one."""
    middle = module_cluster("middle")
    first = World(source, middle, tmp_path / "journal")
    second = World(middle, target, tmp_path / "journal", tag=first.tag, sides="bc")
    topic, settings = first.name("orders"), Settings.model_validate(fan_out(first, second))
    settings = settings.model_copy(update={"flows": (*settings.flows, *first.settings.flows)})

    def elsewhere(request: RunRequest) -> list[str]:
        with FailoverService(settings, settings.flows[0]) as desk:
            found = desk.rehearse([], request).refusals
        return [error.evidence for _, error in found if error.code == "promoted_elsewhere"]

    try:
        copy_by(topic, first)
        second.replicate()
        second.copied([topic])
        seen = [f"{topic}: {first.settings.flows[0].name} copies it to {second.source.alias}"]
        assert elsewhere(RunRequest(planned=True)) == seen
        first.stop_replicating()
        second.stop_replicating()
        middle.kill()
        assert elsewhere(UNPLANNED) == seen
        assert elsewhere(DESPITE) == []
        middle.restart()
        eventually(lambda: first.offsets(first.target, topic), what="an answer of the middle")
        with first.desk() as desk:
            assert desk.begin([], UNPLANNED)["state"] == "done"
        assert elsewhere(UNPLANNED) == []
        middle.kill()
        assert elsewhere(UNPLANNED) == [], "the beginning of the chain is fenced"
    finally:
        first.close()
        second.close()
