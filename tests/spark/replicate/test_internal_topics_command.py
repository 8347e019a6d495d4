"""``drkit replicate`` whose internal topics are deleted: exit codes and words, as its user sees them."""

from __future__ import annotations

import json
from pathlib import Path
import uuid

import pytest

from drkit.config import ClusterSettings
from drkit.flow_state.names import offset_map_topic, state_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, delete_topics, topic_names
from drkit.local.cluster import LocalCluster
from tests.support.cli.forked import Forked
from tests.support.cli.json_fields import pin
from tests.support.flows.compare import read
from tests.support.flows.produce import fill
from tests.support.spark.here import drkit_here
from tests.support.waiting import eventually

RECORDS = 50


class Shop:
    """A flow with one topic, as its user has it."""

    def __init__(self, folder: Path, source: LocalCluster, target: LocalCluster) -> None:
        tag = uuid.uuid4().hex[:8]
        self.source = ClusterSettings(alias=f"a{tag}", bootstrap_servers=source.bootstrap())
        self.target = ClusterSettings(alias=f"b{tag}", bootstrap_servers=target.bootstrap())
        self.topic, self.config, self.said = f"{tag}-orders", folder / "drkit.toml", folder / "said"
        clusters = "".join(
            f'[clusters.{c.alias}]\nbootstrap_servers = "{c.bootstrap_servers}"\n'
            for c in (self.source, self.target)
        )
        self.config.write_text(
            f'{clusters}[[flows]]\nsource = "{self.source.alias}"\ntarget = "{self.target.alias}"\n'
            f'topics = ["{self.topic}"]\ngroups = ["{tag}-.*"]\ntasks = 1\nbuckets = 2\n'
            "emit_heartbeats = false\nrefresh_topics_interval_seconds = 1\n"
        )
        assert not create_topics(Cluster.connect(self.source), [TopicPlan(self.topic, 1, 1)])
        eventually(lambda: self.topic in topic_names(Cluster.connect(self.source)), what=self.topic)
        fill(self.source, self.topic, RECORDS)

    def start(self) -> Forked:
        return Forked("replicate", "--config", str(self.config), "--json", said=self.said)

    def ended(self, process: Forked) -> tuple[int, dict[str, object]]:
        """Exit code and the flow's line of the answer."""
        out, _ = process.communicate(timeout=120)
        pin("replicate", answer := json.loads(out))
        return process.wait(), answer["flows"][0]

    def once(self) -> tuple[int, dict[str, object]]:
        """Exit code and the flow's line of the answer of a copy with an end."""
        done = drkit_here("replicate", "--config", str(self.config), "--json", "--once")
        pin("replicate", answer := json.loads(done.stdout))
        return done.returncode, answer["flows"][0]

    def copies(self) -> int:
        if self.topic not in topic_names(Cluster.connect(self.target)):
            return 0
        return len(read(self.target, self.topic)[0])

    def delete(self, name: str) -> None:
        target = Cluster.connect(self.target)
        assert not delete_topics(target, [name])
        eventually(lambda: name not in topic_names(target), what=f"end of {name}")


@pytest.fixture
def shop(tmp_path: Path, source: LocalCluster, target: LocalCluster) -> Shop:
    return Shop(tmp_path, source, target)


@pytest.mark.wide
def test_a_state_deleted_between_runs_ends_with_3_and_nothing_is_copied_again(shop: Shop) -> None:
    code, answer = shop.once()
    assert (code, answer["records"], answer["groups"]) == (0, RECORDS, {})
    shop.delete(state_topic(shop.source.alias))
    code, answer = shop.once()
    assert code == 3
    error = answer["error"]
    assert isinstance(error, dict)
    assert error["code"] == "state_deleted"
    assert offset_map_topic(shop.source.alias) in error["evidence"]
    assert shop.copies() == RECORDS


@pytest.mark.wide
def test_a_map_deleted_while_it_runs_ends_the_flow_with_3(shop: Shop) -> None:
    process = shop.start()
    try:
        eventually(lambda: shop.copies() == RECORDS, 90, "the copy")
        shop.delete(offset_map_topic(shop.source.alias))
        code, answer = shop.ended(process)
    finally:
        process.kill()
    assert code == 3
    error = answer["error"]
    assert isinstance(error, dict)
    assert error["code"] in {"internal_topic_deleted", "map_deleted"}
    assert "the offset map" in error["error"]
    assert "it had the id" in error["evidence"]
    assert shop.copies() == RECORDS
