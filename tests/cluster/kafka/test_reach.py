"""Whether a cluster answers: every server is asked once, and one that hangs costs a second, not more."""

from __future__ import annotations

import pytest

from drkit.clock import monotonic
from drkit.config import ClusterSettings, Settings
from drkit.failover.core.context import REMEMBERED_SECONDS, Context, Scope
from drkit.failover.core.request import RunRequest
from drkit.flow_state.topic import StateTopic
from drkit.journal.journal import NoJournal
from drkit.kafka.admin import reach
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.local.cluster import LocalCluster
from tests.support.kafka.ports import closed, silent

SECONDS = 0.3


def settings(*servers: str) -> ClusterSettings:
    return ClusterSettings(alias="primary", bootstrap_servers=",".join(servers))


@pytest.mark.wide
def test_servers_that_do_not_answer_are_left_out(target: LocalCluster) -> None:
    with silent() as hanging:
        found = reach(settings(closed(), hanging.address, target.bootstrap()), SECONDS)
    assert found.settings.bootstrap_servers == target.bootstrap()
    assert not found.silence


@pytest.mark.wide
def test_a_cluster_that_is_gone_says_what_is_at_each_address() -> None:
    dead = closed()
    with silent() as first, silent() as second:
        began = monotonic()
        found = reach(settings(dead, first.address, second.address), SECONDS)
        took = monotonic() - began
    assert took < 5 * SECONDS, "all at the same time"
    told = found.silence.split("; ")
    assert told[0].startswith(f"{dead}: nothing listens on this port")
    assert f"{first.address}: the port accepts connections but never answers" in told[1]
    assert (first.asked, second.asked) == (1, 1)


class Clock:
    """Moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.wide
def test_a_failover_remembers_that_the_source_does_not_answer(target: LocalCluster) -> None:
    clock, loop = Clock(), EventLoop()
    with silent() as hanging:
        both = {"primary": settings(hanging.address), "standby": ClusterSettings(
            alias="standby", bootstrap_servers=target.bootstrap())}  # fmt: skip
        given = Settings.model_validate({
            "clusters": {a: {"bootstrap_servers": c.bootstrap_servers} for a, c in both.items()},
            "flows": [{"source": "primary", "target": "standby"}],
        })  # fmt: skip
        state = StateTopic(both["standby"], "primary")
        context = Context(
            given, given.flows[0], Scope({}, (), whole_flow=True), RunRequest(), "", 0, NoJournal(),
            loop, RawCluster(loop, both["standby"], "test"), state, lambda _: None, clock=clock,
        )  # fmt: skip
        try:
            for _ in range(3):
                assert context.source() is None
            assert "never answers" in context.source_error
            assert hanging.asked == 1
            clock.now = 6.0
            assert context.source() is None
            assert hanging.asked == 1
            assert context.source(remembered=5.0) is None, "a caller that needs a fresh answer asks again"
            assert hanging.asked == 2
            clock.now = 6.5 + REMEMBERED_SECONDS
            assert context.source() is None
            assert hanging.asked == 3
        finally:
            state.close()
            context.close()
            loop.close()
