"""``drkit translate`` while the source is gone: the target answers, with hardly a wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import delete_topics
from drkit.local.cluster import LocalCluster
from drkit.mm2_topics.checkpoint_topic import CheckpointTopic, ensure_checkpoint_topic
from drkit.offsets.mm2_records import Checkpoint
from drkit.translate.positions import PositionQuestion, translate
from tests.support.circles import in_wide
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.known_flow import remember
from tests.support.flows.produce import fill
from tests.support.kafka.ports import closed, silent

SECONDS = 4.0
"""A port that hangs is given one second for its answer; the rest is a busy machine's."""


@contextmanager
def address(kind: str) -> Iterator[str]:
    if kind == "killed":
        yield closed()
    else:
        with silent() as port:
            yield port.address


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["killed", in_wide("frozen")])
def test_a_source_that_is_gone_is_not_waited_for(
    source: LocalCluster, target: LocalCluster, flow_factory: FlowFactory, topic_name: str, kind: str
) -> None:
    flow = flow_factory(source, target)
    flow.create_both(topic_name, 1)
    fill(flow.source, topic_name, 30)
    flow.copy(topic_name)
    remember(flow, topic_name)
    ours = FlowSettings(source=flow.source.alias, target=flow.target.alias)
    name, cluster = ours.mm2_topics.checkpoints(flow.source.alias), Cluster.connect(flow.target)
    ensure_checkpoint_topic(cluster, name)
    CheckpointTopic(flow.target, name).write([Checkpoint("readers", topic_name, 0, 12, 12)])
    try:
        with address(kind) as server:
            gone = flow.source.model_copy(update={"bootstrap_servers": server})
            settings = Settings(clusters={c.alias: c for c in (gone, flow.target)}, flows=(ours,))
            for question, offset in (
                (PositionQuestion(topic=topic_name, partition=0, offset=7), 7),
                (PositionQuestion("readers"), 12),
            ):
                began = monotonic()
                (line,) = translate(settings, ours, question)
                assert monotonic() - began < SECONDS
                assert (line.answer, line.offset, line.to_offset) == ("exact", offset, offset)
    finally:
        delete_topics(cluster, [name])
