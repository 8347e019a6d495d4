"""An observer looks on while a failover is under way: it says so, and not that the primary lives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drkit.detect.reasons import Reason
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.runs import all_steps
from drkit.failover.steps.freeze import FreezeStep
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually
from tests.support.watch.world import QUICK, Lookout


class WatchedStep(FreezeStep):
    """After the step that writes drkit's own canaries on the standby, it waits for what others see."""

    def __init__(self, world: World, lookout: Lookout) -> None:
        self._world, self._lookout = world, lookout
        self.states = list[PairState]()

    def run(self, context: Context) -> StepResult:
        done = super().run(context)

        def is_seen() -> bool:
            context.pause(0.2)
            return self._lookout.reason is Reason.FAILING_OVER

        eventually(is_seen, 60, lambda: str(self._lookout.changes[-5:]))
        collector = PairedCollector(self._world.settings, self._world.settings.flows[0], groups=False)
        try:
            pair = collector.look().pair
        finally:
            collector.close()
        assert pair is not None
        self.states = [t.state for t in pair.topics]
        return done


@pytest.fixture
def lookout(world: World) -> Iterator[Lookout]:
    settings = world.settings.model_copy(
        update={"watch": world.settings.watch.model_validate({"observers": ["o1"], **QUICK})}
    )
    made = Lookout(settings, "o1")
    made.start()
    yield made
    made.stop()


@pytest.mark.wide
def test_a_failover_under_way_is_the_verdict(world: World, lookout: Lookout) -> None:
    topic = world.name("t")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, 20)
    world.replicate()
    world.copied([topic])
    eventually(lambda: lookout.moment is not None, 60, "a first look")
    world.stop_replicating()
    for broker in world.brokers[:1]:
        broker.kill()
    step = WatchedStep(world, lookout)
    with world.desk(steps={**all_steps(), step.name: step}) as desk:
        report = desk.begin([], RunRequest(accept_data_loss="it is dead", despite_signs_of_life="test"))
    assert report["state"] == "done", report
    assert step.states == [PairState.FAILING_OVER]
    lookout.sees(Reason.PROMOTED, 60)
    reasons = [change.verdict.reason for change in lookout.changes]
    since = reasons[reasons.index(Reason.FAILING_OVER) :]
    assert set(since) <= {Reason.FAILING_OVER, Reason.PROMOTED}, since
