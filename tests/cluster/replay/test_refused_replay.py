"""What a replay refuses, and that nothing is appended then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
import os
from pathlib import Path
from uuid import uuid4

import pytest

from drkit.errors import DrkitError, Refused
from drkit.flow_state.creation import note_clusters
from drkit.flow_state.records import ClustersRecord, FormerSourcesRecord, RoleRecord
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.replay.compare import Same
from drkit.replay.writer import ReplayResult
from tests.support.errors import coded
from tests.support.flows.clusters import Clusters
from tests.support.flows.produce import producer
from tests.support.replay.world import YEAR_MS, ReplayWorld, own, run_of, tail


def refused(world: ReplayWorld, manifest: str, same: Same | None = None, **more: bool) -> DrkitError:
    with pytest.raises(Refused) as caught:
        world.replay(manifest, same, **more)
    return caught.value


def test_not_the_primary_any_more(world: ReplayWorld, topic_name: str) -> None:
    mine = world.promoted(topic_name)
    with world.state() as state:
        state.load()
        state.delete(RoleRecord, topic_name)
    error = refused(world, world.export({TopicPartition(topic_name, 0): tail(3)}))
    assert error.code == "replay_other_primary"
    assert not own(world.seen(mine))


def test_an_export_of_an_earlier_failover(world: ReplayWorld, topic_name: str) -> None:
    """What it replayed then is before the new cut, where nothing is compared: it would come twice."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    assert world.replay(world.export({at: tail(3)})) == {str(at): ReplayResult(3, 0, 0)}
    again = world.export({at: tail(3)})
    with world.state() as state:
        state.load()
        role = state.get(RoleRecord, topic_name)
        assert role is not None
        ends = dict(world.offsets(world.target, mine))
        state.put(replace(role, term=role.term + 2, run_id="later", ends=ends), topic_name)
    assert refused(world, again).code == "replay_earlier_failover"
    assert len(own(world.seen(mine))) == 3
    assert world.replay(again, quarantine=True) == {str(at): ReplayResult(3, 0, 0)}


@pytest.fixture
def another_primary(world: ReplayWorld) -> Iterator[None]:
    """Another cluster has taken the old primary's place for a test; for the file's other tests it has not."""
    with world.state() as state:
        state.load()
        before = state.get(ClustersRecord)
        assert before is not None
        note_clusters(state, ClustersRecord("its successor", Cluster.connect(world.target).cluster_id))
    yield
    with world.state() as state:
        state.load()
        state.put(before)
        state.delete(FormerSourcesRecord)


@pytest.mark.usefixtures("another_primary")
def test_an_export_of_a_cluster_whose_place_another_one_took(world: ReplayWorld, topic_name: str) -> None:
    """It is taken, of the failover that promoted the topic alone; an unknown cluster's is not."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    manifest = world.export({at: tail(3)})
    with world.state() as state:
        state.load()
        role = state.get(RoleRecord, topic_name)
        assert role is not None
        state.put(replace(role, term=role.term - 1), topic_name)
    assert refused(world, manifest).code == "replay_other_failover"
    assert world.replay(manifest, quarantine=True) == {str(at): ReplayResult(3, 0, 0)}
    with world.state() as state:
        state.load()
        state.put(role, topic_name)
    assert world.replay(manifest) == {str(at): ReplayResult(3, 0, 0)}
    assert len(own(world.seen(mine))) == 3
    with world.state() as state:
        state.load()
        state.delete(FormerSourcesRecord)
    assert refused(world, manifest).code == "replay_other_source"


@pytest.mark.wide
def test_another_topic_on_either_side(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    known = world.ids[topic_name]
    world.ids[topic_name] = uuid4()
    assert refused(world, world.export({at: tail(3)})).code == "replay_other_topic"
    world.ids[topic_name] = known
    manifest = world.export({at: tail(3)})
    world.delete(world.target, mine)
    world.create(world.target, mine, 1, {})
    assert refused(world, manifest).code == "replay_topic_recreated"
    assert world.replay(manifest, quarantine=True) == {str(at): ReplayResult(3, 0, 0)}


def test_a_partition_that_the_new_primary_has_not(world: ReplayWorld, topic_name: str) -> None:
    world.promoted(topic_name)
    error = refused(world, world.export({TopicPartition(topic_name, 1): tail(3)}))
    assert error.code == "replay_fewer_partitions"
    assert world.replay(world.export({TopicPartition(topic_name, 1): tail(3)}), quarantine=True)


@pytest.mark.wide
def test_a_record_that_is_too_large_with_its_header(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name, 1, {"max.message.bytes": "500"}), TopicPartition(topic_name, 0)
    lost = tail(3)
    lost[2] = lost[2]._replace(value=os.urandom(400))
    manifest = world.export({at: lost})
    error = refused(world, manifest)
    assert error.code == "record_too_large"
    assert "offset 102" in error.evidence
    assert not own(world.seen(mine)), "seen before the first record is sent"
    world.configure(world.target, mine, "max.message.bytes", "1000")
    assert world.replay(manifest) == {str(at): ReplayResult(3, 0, 0)}


@pytest.mark.wide
def test_a_topic_that_does_not_take_old_records(world: ReplayWorld, topic_name: str) -> None:
    config = {"message.timestamp.before.max.ms": "86400000"}
    mine, at = world.promoted(topic_name, 1, config), TopicPartition(topic_name, 0)
    manifest = world.export({at: tail(3)})
    error = refused(world, manifest)
    assert error.code == "record_too_old"
    assert "message.timestamp.before.max.ms" in error.hint
    world.configure(world.target, mine, "message.timestamp.before.max.ms", str((1 << 63) - 1))
    assert world.replay(manifest) == {str(at): ReplayResult(3, 0, 0)}


def test_a_topic_that_does_not_take_times_ahead(world: ReplayWorld, topic_name: str) -> None:
    """The clock of the old primary's clients was a year ahead; quarantine takes them."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    ahead = [r._replace(timestamp=r.timestamp + 2 * YEAR_MS) for r in tail(3)]
    manifest = world.export({at: ahead})
    error = refused(world, manifest)
    assert error.code == "record_too_old"
    assert "ahead of the clock" in error.evidence
    assert not own(world.seen(mine)), "seen before the first record is sent"
    assert world.replay(manifest, quarantine=True) == {str(at): ReplayResult(3, 0, 0)}
    world.configure(world.target, mine, "message.timestamp.after.max.ms", str((1 << 63) - 1))
    assert world.replay(manifest) == {str(at): ReplayResult(3, 0, 0)}
    assert [s.timestamp for s in own(world.seen(mine))] == [r.timestamp for r in ahead]


def test_what_it_would_be_compared_with_is_removed(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    world.write(mine, tail(20, word="new"))
    manifest = world.export({at: tail(3)})
    Clusters.delete_records(world, mine, 0, 15, world.target)
    assert refused(world, manifest).code == "replay_not_comparable"
    assert refused(world, manifest, Same.CONTENT).code == "replay_not_comparable"
    assert world.replay(manifest, Same.NONE) == {str(at): ReplayResult(3, 0, 0)}


def test_a_transaction_of_a_client_is_open(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote cannot be compared; decided, it can."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(5)
    monkeypatch.setattr("drkit.replay.side.DECIDED_SECONDS", 0.5)
    client = producer(world.target, transactional_id=f"client-{topic_name}")
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(mine, lost[1].value, lost[1].key, partition=0)
    client.flush(30)
    manifest = world.export({at: lost})
    assert refused(world, manifest).code == "replay_open_transaction"
    client.commit_transaction(30)
    assert world.replay(manifest, Same.CONTENT) == {str(at): ReplayResult(4, 1, 0)}


def test_continued_with_another_answer_or_another_manifest(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(20)
    world.write(mine, lost[:2])
    manifest = world.export({at: lost})
    assert world.process(manifest, kill=9, piece=5, same="content").outcome()["killed"]
    assert refused(world, manifest, Same.NONE).code == "replay_same_differs"
    other = Path(manifest).parent.rename(world.folder / "moved")
    again = world.export({at: lost[:5]}, run_of(manifest))
    assert refused(world, again).code == "replay_id_reused"
    assert world.replay(str(other / "manifest.json")) == {str(at): ReplayResult(18, 2, 0)}


@pytest.mark.wide
def test_a_topic_in_quarantine_that_is_somebody_elses(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name, 3), TopicPartition(topic_name, 0)
    name = f"{mine}.divergent.7"
    manifest = world.export({at: tail(3)})
    world.create(world.target, name, 1, {})
    assert refused(world, manifest, quarantine=True).code == "quarantine_topic_foreign"
    world.delete(world.target, name)
    assert world.replay(manifest, quarantine=True) == {str(at): ReplayResult(3, 0, 0)}
    assert len(world.topic(world.target, name).leaders) == 3


def test_a_name_in_quarantine_that_kafka_refuses(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    other = f"{mine}_divergent_7"
    world.create(world.target, other, 1, {})
    error = refused(world, world.export({at: tail(3)}), quarantine=True)
    assert error.code == "quarantine_name_clash"
    assert other in error.evidence


def test_an_export_that_was_changed(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    manifest = world.export({at: tail(30)})
    file = next(Path(manifest).parent.rglob("*.jsonl"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert refused(world, manifest).code == "export_altered"
    assert not own(world.seen(mine))


def test_another_cluster(world: ReplayWorld, topic_name: str) -> None:
    world.promoted(topic_name)
    manifest = world.export({TopicPartition(topic_name, 0): tail(3)})
    with world.replayer(manifest) as replayer, world.state() as state:
        state.load()
        export = replayer._request.export
        replayer._request = replayer._request._replace(export=export._replace(cluster_id="another"))
        with pytest.raises(Refused, check=coded("replay_other_source")):
            replayer.plan(state.records)
