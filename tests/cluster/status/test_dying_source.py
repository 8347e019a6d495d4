"""The note of the source's ends, while the source's brokers die one after the other."""

from __future__ import annotations

from contextlib import closing

import pytest

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.detect.risk import Sighting
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ClusterSpec
from drkit.status.look import StatusCollector
from drkit.status.paired import PairedCollector
from drkit.watch.senses import loss_known
from tests.support.flows.flow import Flow
from tests.support.flows.known_flow import remember
from tests.support.waiting import eventually


@pytest.mark.wide
def test_an_incomplete_look_does_not_replace_the_note_of_a_complete_one(
    target: LocalCluster, topic_name: str
) -> None:
    """The primary loses one broker, then all: a watch that begins then knows the loss by the note."""
    with LocalCluster(ClusterSpec("dying", brokers=3)) as source:
        flow = Flow(source, target, topics=(topic_name,), emit_heartbeats=False)
        flow.create_both(topic_name, 3)  # one replica each: a partition has no leader without its broker
        remember(flow, topic_name)
        settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(flow.settings,))
        with closing(PairedCollector(settings, flow.settings, scan_up_to=0, groups=False)) as collector:
            assert collector.look().copied_ms is not None
            collector.remember_source()
            source.broker(2).kill()
            eventually(lambda: -1 in {p.node for p in flow.topic(flow.source, topic_name).leaders.values()})
            status = collector.look()
            assert status.unanswered
            [reason] = [f.text for f in status.faults if f.code == "lag_unknown"]
            assert reason.endswith("it has no leader on the source that answers")
            assert (status.loss.records, status.loss.exact) == (None, False)
            collector.remember_source()
        source.kill()
        with closing(StatusCollector(settings, flow.settings, groups=False)) as late:
            status = late.look()
        assert not status.source_answers
        now = wall_ms()
        risk = loss_known(status, Sighting(now, now, None), silent=True).risk(None)
        assert risk.seconds is not None, risk.basis
        assert risk.seconds < 120


@pytest.mark.wide
def test_a_topic_without_a_copy_is_left_out_at_once_when_the_source_is_silent(
    target: LocalCluster, topic_name: str
) -> None:
    """An observer that begins after the loss does not wait for a copy that nobody can make."""
    copied, late = f"{topic_name}-copied", f"{topic_name}-late"
    with LocalCluster(ClusterSpec("silent")) as source:
        flow = Flow(source, target, topics=(copied, late), emit_heartbeats=False)
        flow.create_both(copied, 1)
        remember(flow, copied)
        flow.create(flow.source, late, 1, {})
        settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(flow.settings,))
        with closing(PairedCollector(settings, flow.settings, scan_up_to=0, groups=False)) as collector:
            eventually(lambda: not collector.look().unanswered)
            collector.remember_source()
    with closing(StatusCollector(settings, flow.settings, groups=False, patience_seconds=600)) as observer:
        found = observer.look()
    assert not found.source_answers
    assert [f.text for f in found.faults if f.code == "topics_left_out"] == [
        f"topics of the source are not copied: {late}"
    ]
