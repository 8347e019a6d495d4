"""A look that takes seconds, as on a busy machine or with many topics."""

from __future__ import annotations

from contextlib import closing

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.status.look import StatusCollector
from tests.support.flows.flow import Flow
from tests.support.flows.known_flow import remember
from tests.support.flows.produce import fill

_SLOW_MS = 10_000


def test_a_record_that_is_younger_than_the_look_has_an_age(flow: Flow, topic_name: str) -> None:
    """It counted as one from the future: the lag was unknown, and the pair UNPROTECTED."""
    flow.create_both(topic_name, 1)
    fill(flow.source, topic_name, 5)
    flow.copy(topic_name)
    remember(flow, topic_name)
    fill(flow.source, topic_name, 3)
    now = wall_ms()
    readings = iter([now - _SLOW_MS])

    def clock() -> int:  # its first reading is the look's begin
        return next(readings, wall_ms())

    ours = flow.settings.model_copy(update={"topics": (topic_name,), "emit_heartbeats": False})
    settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(ours,))
    with closing(StatusCollector(settings, ours, groups=False, clock=clock)) as collector:
        [partition] = collector.look().partitions
    assert partition.records == 3
    assert partition.seconds is not None
    assert partition.seconds < (wall_ms() - now) / 1000 + 60
