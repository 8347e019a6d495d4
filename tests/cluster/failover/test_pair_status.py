"""What `drkit status` says of a pair, while one of two topics goes over and is copied back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import json
from pathlib import Path
import re

import pytest

from drkit.config import FlowSettings, Settings
from drkit.detect.reasons import Reason
from drkit.detect.verdict import Verdict, VerdictKind
from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.runs import all_steps
from drkit.failover.steps.drain import DrainStep
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import FenceSizesRecord, ReturnRecord, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, delete_topics
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairAlarm, PairState, PairTopic
from drkit.status.paired import PairedCollector
from tests.support.errors import made
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually
from tests.support.warm import WarmProcess
from tests.support.watch.world import QUICK, Lookout

DAY_MS = 86_400_000
SIZE = "max.message.bytes"


class StuckStep(DrainStep):
    """It never gets to the fenced end.

    :param during: is called while the run is at this step
    """

    def __init__(self, during: Callable[[], object]) -> None:
        super().__init__()
        self._during = during

    def run(self, context: Context) -> StepResult:
        self._during()
        raise made(Failed, "the copy does not move", where=context.flow.name)


@dataclass
class Course:
    """The looks, by what had happened."""

    world: World
    seen: dict[str, FlowStatus] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def orders(self) -> str:
        return self.world.name("orders")

    @property
    def quiet(self) -> str:
        return self.world.name("quiet")

    def settings(self, *, primary: bool = True) -> Settings:
        """Both directions; the way back has only the topic that goes over."""
        plain = self.world.plain()
        over = plain["flows"][0]
        back = {**over, "source": over["target"], "target": over["source"], "topics": [self.orders]}
        if not primary:
            plain["clusters"][self.world.source.alias]["bootstrap_servers"] = "127.0.0.1:1"
        return Settings.model_validate(plain | {"flows": [over, back]})

    def looked(self, settings: Settings, flow: FlowSettings) -> FlowStatus:
        collector = PairedCollector(settings, flow, groups=False)
        try:
            return collector.look()
        finally:
            collector.close()

    def look(self, when: str, *, primary: bool = True) -> None:
        settings = self.settings(primary=primary)
        self.seen[when] = self.looked(settings, settings.flows[0])

    def look_from_the_other(self, when: str) -> None:
        settings = self.settings()
        self.seen[when] = self.looked(settings, settings.flows[1])

    @contextmanager
    def observer(self) -> Iterator[Lookout]:
        """An observer of the way over, as `drkit watch` starts it."""
        plain = self.settings().model_dump(mode="json", exclude_unset=True)
        lookout = Lookout(Settings.model_validate(plain | {"detection": QUICK}), "o1")
        lookout.start()
        try:
            yield lookout
        finally:
            lookout.stop()

    def topic(self, when: str, name: str) -> PairTopic:
        pair = self.seen[when].pair
        assert pair is not None
        [found] = [t for t in pair.topics if t.topic == name]
        return found

    def state(self, when: str, name: str) -> tuple[PairState, str]:
        found = self.topic(when, name)
        return found.state, found.direction

    @property
    def over(self) -> str:
        return f"{self.world.source.alias}->{self.world.target.alias}"

    @property
    def back(self) -> str:
        return f"{self.world.target.alias}->{self.world.source.alias}"


def gone(course: Course) -> None:
    """One topic goes over as planned, and clients write to it."""
    world, shop = course.world, course.world.name("shop")
    for name in (course.orders, course.quiet):
        world.create(world.source, name, 1, {"retention.ms": str(DAY_MS)})
        fill(world.source, name, 20)
    world.commit(world.source, shop, {TopicPartition(course.orders, 0): 5})
    world.replicate()
    world.copied([course.orders, course.quiet], {shop: None})
    course.look("before")
    with course.observer() as observer:

        def watched(reason: Reason) -> None:
            course.verdicts[reason] = observer.sees(reason, 60).verdict

        stuck = StuckStep(lambda: watched(Reason.FAILING_OVER))
        with world.desk(steps={**all_steps(), stuck.name: stuck}) as desk, pytest.raises(Failed):
            desk.begin([shop], RunRequest(planned=True))
        watched(Reason.RUN_HELD)
    course.look("held")
    with world.desk() as desk:
        desk.abort("for the test")
    with world.desk() as desk:
        assert desk.begin([shop], RunRequest(planned=True))["state"] == "done"
    course.look("over")
    fill(world.target, course.orders, 5, first=20)
    course.look("written")
    course.look_from_the_other("written, from the way back")
    course.look("primary silent", primary=False)


def alarmed(course: Course) -> None:
    """A person lifts the fence of one topic; on the other one a fence was left."""
    world = course.world
    source = Cluster.connect(world.source)
    assert not alter_topic_configs(source, {course.orders: {SIZE: None}, course.quiet: {SIZE: "0"}})
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        state.put(FenceSizesRecord({course.orders: None, course.quiet: None}))
        course.look("alarms")
        state.put(FenceSizesRecord({course.orders: None}))
    assert not alter_topic_configs(source, {course.quiet: {SIZE: None}})


def returned(course: Course) -> None:
    """A turn is recorded, and the way back runs: it copies everything, since the old copy is deleted."""
    world, settings = course.world, course.settings()
    ensure_state_topic(Cluster.connect(world.source), settings.flows[1])
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        [role] = state.all(RoleRecord).values()
    with StateTopic(world.source, world.target.alias) as state:
        state.put(ReturnRecord(role.run_id, "turn", role.at_ms + 1), course.orders)
    course.look("turned")
    assert not delete_topics(Cluster.connect(world.source), [course.orders])
    plain = world.plain()
    plain["flows"] = [settings.flows[1].model_dump(mode="json", exclude_unset=True)]
    with (world.folder.parent / "back.log").open("wb") as log:
        process = WarmProcess("drkit.replicate.solo", stdin=json.dumps(plain).encode(), out=log.fileno())
        try:
            eventually(lambda: _is_protected(course), 60, lambda: str(course.seen["back"].pair))
        finally:
            process.kill()
            process.wait()


def _is_protected(course: Course) -> bool:
    course.look("back")
    return course.topic("back", course.orders).state is PairState.PROTECTED


@pytest.fixture(scope="module")
def course(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Course]:
    folder: Path = tmp_path_factory.mktemp("pair") / "journal"
    world = World(source, target, folder)
    try:
        made = Course(world)
        gone(made)
        alarmed(made)
        returned(made)
        yield made
    finally:
        world.close()


@pytest.mark.wide
def test_before_a_failover_the_flow_protects(course: Course):
    pair = course.seen["before"].pair
    assert pair is not None
    assert {t.topic for t in pair.topics} == {course.orders, course.quiet}, (
        "heartbeats are no clients' topics"
    )
    for name in (course.orders, course.quiet):
        assert course.state("before", name) == (PairState.PROTECTED, course.over)
    assert course.topic("before", course.orders).records == 0


@pytest.mark.wide
def test_a_held_run_is_shown_with_its_step_and_why(course: Course):
    assert course.state("held", course.orders) == (PairState.FAILING_OVER, course.over)
    command = f"drkit failover --flow '{course.over}'"
    assert course.topic("held", course.orders).why.endswith(
        "at DRAIN, held: the copy does not move; when that is cleared:"
        f" {command} --resume; to roll it back: {command} --abort"
    )
    assert course.topic("held", course.orders).alarm is None, "the fence is that of a run under way"
    assert course.state("held", course.quiet) == (PairState.PROTECTED, course.over)


@pytest.mark.wide
def test_an_observer_says_that_a_run_is_under_way_and_then_that_it_is_held(course: Course):
    under_way, held = course.verdicts[Reason.FAILING_OVER], course.verdicts[Reason.RUN_HELD]
    assert (under_way.kind, under_way.name) == (VerdictKind.DEGRADED, "FAILING OVER")
    assert any(re.search(r"\bat [A-Z_]+", each) for each in under_way.evidence)
    assert held.kind is VerdictKind.HOLD
    assert any("--resume" in each and "--abort" in each for each in held.evidence)


@pytest.mark.wide
def test_what_went_over_is_not_protected_and_the_rest_is(course: Course):
    over = course.topic("over", course.orders)
    assert (over.state, over.direction) == (PairState.UNPROTECTED, course.back)
    assert over.why.startswith("its return has not begun")
    assert (over.active, over.alarm) == (course.world.target.alias, None)
    assert over.since_ms is not None
    assert course.state("over", course.quiet) == (PairState.PROTECTED, course.over)
    assert "unprotected" in [f.code for f in course.seen["over"].faults]


@pytest.mark.wide
def test_the_delta_is_whole_until_its_first_record_expires(course: Course):
    before, after = course.topic("over", course.orders), course.topic("written", course.orders)
    assert before.delta is not None
    assert before.delta.until_ms is None, "clients have written nothing yet"
    assert after.delta is not None
    assert after.delta.by == "retention.ms"
    assert after.since_ms is not None
    assert after.delta.until_ms is not None
    assert 0 <= after.delta.until_ms - after.since_ms - DAY_MS < 120_000


@pytest.mark.wide
def test_from_the_way_back_the_same_is_seen(course: Course):
    mine = course.topic("written", course.orders)
    other = course.topic("written, from the way back", course.orders)
    assert (other.state, other.direction, other.why) == (mine.state, mine.direction, mine.why)
    assert (other.since_ms, other.active, other.alarm) == (mine.since_ms, mine.active, mine.alarm)
    assert mine.delta is not None
    assert other.delta is not None
    assert (other.delta.until_ms, other.delta.by) == (mine.delta.until_ms, mine.delta.by)


@pytest.mark.wide
def test_a_silent_primary_leaves_unknown_what_it_would_say(course: Course):
    alias = course.world.source.alias
    over = course.topic("primary silent", course.orders)
    assert (over.state, over.why) == (PairState.UNPROTECTED, f"{alias} does not answer")
    assert over.delta is not None
    assert over.delta.until_ms is not None
    assert course.topic("primary silent", course.quiet).state is PairState.UNKNOWN


@pytest.mark.wide
def test_alarms_come_from_what_the_cluster_has(course: Course):
    assert course.topic("alarms", course.orders).alarm is PairAlarm.BOTH_OPEN
    assert course.topic("alarms", course.quiet).alarm is PairAlarm.BOTH_CLOSED
    assert [f.code for f in course.seen["alarms"].faults][:2] == ["both_open", "both_closed"]


@pytest.mark.wide
def test_a_turn_without_a_replicator_protects_nothing(course: Course):
    found = course.topic("turned", course.orders)
    assert (found.state, found.alarm) == (PairState.UNPROTECTED, None)
    assert found.why == f"the replicator of {course.back} does not run"


@pytest.mark.wide
def test_the_way_back_protects_what_went_over(course: Course):
    found = course.topic("back", course.orders)
    assert (found.direction, found.records, found.delta) == (course.back, 0, None)
    assert found.alarm is None, "the old primary is the passive side of a copy"
    assert "unprotected" not in [f.code for f in course.seen["back"].faults]
