"""A topic that was promoted in both directions, and deleted then: a person ends both promotions at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_names
from tests.support.failback.pair import Pair
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.flows.produce import fill
from tests.support.waiting import eventually


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_both_promotions_are_forgotten(pair: Pair, tmp_path: Path) -> None:
    """The older one was left: UNPROTECTED for ever, of a topic whose new life no flow copied."""
    first = pair.now
    gone, anew, stays = topics = [first.name(n) for n in ("gone", "anew", "stays")]
    for topic in topics:
        first.create(first.source, topic, 1, {"retention.ms": "-1"})
        fill(first.source, topic, 10)
    for _ in range(2):
        pair.now.replicate()
        pair.now.copied(topics)
        assert pair.switch()["state"] == "done"
        assert pair.reprotect()["state"] == "done"
    assert pair.now is first
    first.replicate()
    first.copied(topics)
    assert pair.switch()["state"] == "done"

    file = written(first, tmp_path)
    for cluster in (first.source, first.target):
        _deleted(pair, cluster, gone, anew)
    first.create(first.target, anew, 1, {})
    fill(first.target, anew, 7)
    done = drkit(file, "reprotect", "--flow", first.settings.flows[0].name, "--forget", "*", "--yes")
    assert done.code == 0, done.err
    assert {t["topic"] for t in done.data["topics"]} == {gone, anew}
    assert _states(file).keys() == {stays}, _states(file)

    assert pair.reprotect()["state"] == "done"
    back = pair.now
    back.replicate()
    back.copied([stays, anew])
    eventually(
        lambda: _states(file) == {stays: "protected", anew: "protected"}, 30, lambda: str(_states(file))
    )


def _deleted(pair: Pair, cluster: ClusterSettings, *topics: str) -> None:
    for topic in topics:
        pair.now.delete(cluster, topic)
    there = lambda: set(topic_names(Cluster.connect(cluster)))  # noqa: E731
    eventually(lambda: not set(topics) & there(), what=f"deleted on {cluster.alias}")


def _states(file: Path) -> dict[str, Any]:
    flow = drkit(file, "status").data["flows"][0]
    return {t["topic"]: t["state"] for t in flow["pair"]["topics"]}
