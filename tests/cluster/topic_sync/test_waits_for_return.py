"""After a switchover the flow in the other direction leaves the topic out, until a return has begun it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pytest

from drkit.checkpoints.work import FrameLook
from drkit.config import FlowSettings, Settings
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.divergence import divergence
from drkit.failover.new_primary.hold import hold, put_back
from drkit.failover.service import FailoverService
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import EventRecord, ReturnRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topic_sync.preview import topic_plan
from drkit.topic_sync.rules import TopicSyncResult
from drkit.topic_sync.sync import TopicSync
from drkit.topology.topic_configs import MAX_MESSAGE_BYTES
from tests.support.errors import sentence
from tests.support.failover.world import World
from tests.support.flows.produce import fill


@dataclass
class Turned:
    """A switchover has ended; nothing has begun in the other direction."""

    world: World
    run: str
    topic: str
    settings: Settings
    clusters: tuple[Cluster, Cluster]
    """The new primary, and the old one."""
    state: StateTopic
    """Of the flow in the other direction."""

    def look(self) -> TopicSyncResult:
        """As its replicator looks."""
        return _look(*self.clusters, self.settings.flows[1], self.state, both_ways=False)

    def look_forth(self) -> TopicSyncResult:
        """The replicator of the flow that failed over looks: topics not promoted are still copied."""
        active, passive = self.clusters
        with StateTopic(active.settings, passive.alias) as state:
            state.load()
            return _look(passive, active, self.settings.flows[0], state, both_ways=True)

    def plan(self) -> dict[str, str]:
        """What `drkit config show --plan` says of topics that are left out."""
        rows: list[dict[str, Any]] = topic_plan(self.settings, self.settings.flows[1:])
        return {row["topic"]: row["why"] for row in rows if row["what"] == "leave out"}

    def begin(self, run: str) -> None:
        """Record a return."""
        self.state.put(ReturnRecord(run, "return", 1), self.topic)


def _look(
    source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, *, both_ways: bool
) -> TopicSyncResult:
    with OppositeFlows(source, target, flow, state, 0.0) as opposite:
        opposite.read_all()
        unexplained = partial(opposite.unexplained, both_ways=both_ways)
        more = {"claims": opposite.claims, "unexplained": unexplained, "held": opposite.held}
        sync = TopicSync(source, target, flow, state, **more)  # type: ignore[arg-type]
        return sync.look()


class Case(NamedTuple):
    """How the topic moved."""

    request: RunRequest = RunRequest(planned=True)
    topics: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Topics that stay."""


PARTLY_LOST = Case(RunRequest(accept_data_loss="for the test"), ("orders",), ("other",))


@pytest.fixture
def turned(
    source: LocalCluster, target: LocalCluster, tmp_path: Any, request: pytest.FixtureRequest
) -> Iterator[Turned]:
    world, case = World(source, target, tmp_path), getattr(request, "param", Case())
    topic = world.name("orders")
    for name in ("orders", *case.others):
        world.create(world.source, world.name(name), 1, {})
    fill(world.source, topic, 20)
    world.commit(world.source, world.name("shop"), {TopicPartition(topic, 0): 5})
    world.replicate()
    try:
        world.copied([topic], {world.name("shop"): None})
        with world.desk() as desk:
            report = desk.begin((), case.request, topics=[world.name(t) for t in case.topics])
        assert report["state"] == "done"
        plain = world.plain()
        back = {
            "source": world.target.alias, "target": world.source.alias, "topics": [f"{world.tag}-.*"],
            "heartbeats_replication": False, "sync_topic_configs_delay_seconds": 0,
        }  # fmt: skip
        plain["flows"] = [world.flow_fields, back]
        settings = Settings.model_validate(plain)
        clusters = Cluster.connect(world.target), Cluster.connect(world.source)
        ensure_state_topic(clusters[1], settings.flows[1])
        # Where there is no authorizer the fence refuses drkit, too: a return lifts it when the other side is.
        assert not alter_topic_configs(clusters[1], {topic: {MAX_MESSAGE_BYTES: None}})
        with StateTopic(world.source, world.target.alias) as state:
            yield Turned(world, report["run"], topic, settings, clusters, state)
    finally:
        world.close()


@pytest.mark.wide
@pytest.mark.parametrize(
    "turned",
    [Case(), Case(topics=("orders",)), PARTLY_LOST],
    ids=["whole", "part by part", "one of two, lost"],
    indirect=True,
)
def test_what_was_never_copied_is_not_covered_by_another_topic_of_that_name(turned: Turned) -> None:
    """A topic was created just before the primary died, and again by its client on the new one.

    The flow in the other direction copied the new one on top of records that only the old primary has: status
    said PROTECTED, and `drkit divergence` nothing.
    """
    world, late = turned.world, turned.world.name("late")
    for side, records in ((world.source, 3), (world.target, 2)):
        world.create(side, late, 1, {})
        fill(side, late, records)
    reason = turned.look().left_out[late]
    assert sentence("foreign_records_in_copy") in reason
    forth = turned.settings.flows[0].name
    export = f"drkit divergence export --flow '{forth}' --topic {late} --to PLACE"
    assert f"save them: {export}; drkit replay --from MANIFEST appends them on" in reason
    assert turned.plan()[late] == reason
    settings = turned.settings
    with FailoverService(settings, settings.flows[0]) as desk:
        found = divergence(desk.context_outside_run())
    assert [(p.topic, p.records) for p in found.uncopied] == [(late, 3)]
    world.delete(world.source, late)
    assert late in turned.look().copied


@pytest.mark.wide
@pytest.mark.parametrize("turned", [PARTLY_LOST], ids=["one of two, lost"], indirect=True)
def test_the_lost_primary_is_not_copied_into_a_topic_of_the_new_primary(turned: Turned) -> None:
    """The flow copies on what no failover has moved; what only the old primary has is not among that."""
    world, late, other = turned.world, turned.world.name("late"), turned.world.name("other")
    for side, records in ((world.source, 3), (world.target, 2)):
        world.create(side, late, 1, {})
        fill(side, late, records)
    found = turned.look_forth()
    assert (other in found.copied, late in found.copied) == (True, False)
    assert sentence("foreign_records_in_copy") in found.left_out[late]
    export = f"drkit divergence export --flow '{turned.settings.flows[0].name}' --topic {late} --to PLACE"
    appended = f"drkit replay --from MANIFEST appends them on {world.target.alias}"
    deleted = f"then delete the topic on {world.source.alias}"
    assert all(step in found.left_out[late] for step in (export, appended, deleted))


@pytest.mark.wide
def test_a_promoted_topic_is_copied_back_only_after_its_own_return(turned: Turned) -> None:
    fresh = turned.world.name("fresh")
    turned.world.create(turned.world.target, fresh, 1, {})
    found = turned.look()
    assert list(found.copied) == [fresh], "it was not promoted"
    reason = found.left_out[turned.topic]
    flow = turned.settings.flows[0].name
    assert sentence("promoted_by_switchover", run_id=turned.run) in reason
    assert f"drkit reprotect --flow '{flow}' makes {turned.world.source.alias} its standby" in reason
    event = turned.state.get(EventRecord, EventRecord.name_of("topic_left_out", turned.topic))
    assert event is not None
    assert turned.run in event.fields["reason"]
    assert turned.plan() == {turned.topic: reason}

    turned.begin("earlier")
    assert turned.look().left_out == {turned.topic: reason}, "of an earlier promotion"

    turned.begin(turned.run)
    assert turned.plan() == {}
    found = turned.look()
    assert sorted(found.copied) == sorted([fresh, turned.topic])
    assert found.left_out == {}

    both = turned.clusters[0].settings, turned.clusters[1].settings
    flow_back, records = turned.settings.flows[1], turned.state.records
    frame = FrameLook(both).look(flow_back, records)
    assert frame is not None
    assert frame.terms.known.topics.keys() == {fresh, turned.topic}
    frame = FrameLook(both, lambda: frozenset({turned.topic})).look(flow_back, records)
    assert frame is not None
    assert frame.terms.known.topics.keys() == {fresh}, "its groups get no position"
    _what_a_hold_has_set_is_never_followed(turned)


def _what_a_hold_has_set_is_never_followed(turned: Turned) -> None:
    """The new primary keeps everything; the old one, copied to, keeps its own settings meanwhile."""
    active, passive = turned.clusters
    there, topic = turned.settings.flows[0], turned.topic

    def own(cluster: Cluster) -> dict[str, str | None]:
        found = topic_configs(cluster, [topic])[topic]
        return {n: found[n].value for n in ("retention.ms", "retention.bytes") if found[n].is_set_on_topic}

    assert not alter_topic_configs(active, {topic: {"retention.ms": "3600000"}})
    [held] = hold(turned.settings, there, by="a test")
    assert own(active) == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert held.before == {"retention.ms": "3600000", "retention.bytes": None}
    turned.look()
    assert own(passive) == {}
    assert not alter_topic_configs(active, {topic: {"retention.bytes": "5000000"}})
    turned.look()
    assert own(passive) == {"retention.bytes": "5000000"}, "that is its own"
    [back] = put_back(turned.settings, there)
    assert (back.after, back.changed) == ({"retention.ms": "3600000"}, {"retention.bytes": "5000000"})
    turned.look()
    assert own(passive) == own(active) == {"retention.ms": "3600000", "retention.bytes": "5000000"}
    assert put_back(turned.settings, there) == []
