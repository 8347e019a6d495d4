"""A topic deleted at the source: kept, or mirrored; and what must never look like a deletion."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.config import ClusterSettings
from drkit.errors import DrkitError
from drkit.flow_state.records import GenerationRecord, Role, RoleRecord
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_names
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN
from drkit.topic_sync import sync as gone_topics
from drkit.topic_sync.sync import TopicSync
from tests.support.stored import put as put_record
from tests.support.stored import stored
from tests.support.topic_sync.topic_world import World
from tests.support.waiting import eventually


@pytest.fixture
def world(source: LocalCluster, target: LocalCluster) -> Iterator[World]:
    made = World(source, target)
    made.state.load()
    yield made
    made.state.close()


def mirror(world: World) -> TopicSync:
    return world.sync(on_source_deleted="mirror")


def gone(world: World) -> tuple[TopicSync, str]:
    full = world.create(world.source, "orders")
    sync = mirror(world)
    sync.look()
    world.delete(world.source, full)
    return sync, full


@pytest.mark.wide
def test_the_second_look_deletes_the_copy_and_a_later_topic_of_that_name_starts_again(world: World):
    sync, full = gone(world)

    assert sync.look().changes == []
    assert full in topic_names(world.target)
    found = sync.look()

    assert found.actions[full] == f"delete {full}"
    assert found.left_out[full] == "source_deleted: the copy was deleted too"
    eventually(lambda: full not in topic_names(world.target))
    assert world.event("topic_deleted", full)["why"] == "deleted on the source"
    assert GenerationRecord.key(full) not in stored(world.state)
    assert not sync.look().left_out

    world.create(world.source, "orders")
    assert full in sync.look().copied


@pytest.mark.wide
def test_kept_by_default(world: World):
    _, full = gone(world)
    sync = world.sync()
    for _ in range(3):
        assert sync.look().left_out[full].startswith("source_deleted")
    assert full in topic_names(world.target)


@pytest.mark.wide
def test_a_dry_run_shows_the_deletion_and_does_nothing(world: World):
    _, full = gone(world)
    found = world.sync(on_source_deleted="mirror", effects=False).look()
    assert found.actions[full] == f"delete {full}"
    assert full in topic_names(world.target)


@pytest.mark.wide
def test_a_topic_that_reappears_between_two_looks_is_kept(world: World):
    sync, full = gone(world)
    sync.look()
    world.create(world.source, "orders")
    eventually(lambda: sync.look().left_out.get(full, "").startswith("source_recreated"))
    world.delete(world.source, full)
    assert sync.look().changes == []
    assert full in topic_names(world.target)


@pytest.mark.wide
@pytest.mark.parametrize(
    "change",
    [
        {"target_id": "00000000-0000-0000-0000-000000000001"},  # the target topic is another one
        {"source_cluster": "of-the-real-source"},  # the source's address leads to another cluster by now
        {"source_cluster": None},  # an entry of an earlier release
    ],
)
def test_only_the_copy_of_this_very_topic_is_deleted(world: World, change: dict[str, str | None]):
    sync, full = gone(world)
    put_record(
        world.state, GenerationRecord.key(full), stored(world.state)[GenerationRecord.key(full)] | change
    )
    for _ in range(3):
        assert sync.look().changes == []
    assert full in topic_names(world.target)


def keys_of(world: World, full: str) -> set[str]:
    return {key.split("/")[0] for key in stored(world.state) if full in key}


@pytest.mark.wide
def test_what_is_recorded_of_a_topic_ends_when_neither_side_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    sync, full = gone(world)
    living = world.create(world.source, "living")
    sync.look()
    sync.look()
    kept = world.create(world.source, "kept")
    sync = world.sync()
    sync.look()
    world.state.emit("foreign_writer", full, 3)
    world.state.emit("foreign_writer", kept, 0)
    world.delete(world.source, kept)
    eventually(lambda: full not in topic_names(world.target))
    sync.look()
    assert (keys_of(world, full), keys_of(world, kept)) == ({"event"}, {"event", "topic", "configs"})

    monkeypatch.setattr(gone_topics, "GRACE_MS", -1)
    sync = world.sync()
    sync.look()
    # A copy that outlives its topic is one that a failover can open.
    assert (keys_of(world, full), keys_of(world, kept)) == (set(), {"event", "topic", "configs"})
    world.delete(world.target, kept)
    world.sync().look()
    assert keys_of(world, kept) == set()
    assert keys_of(world, living) == {"topic", "configs"}
    assert not world.sync().look().left_out


@pytest.mark.wide
def test_the_records_of_a_promoted_topic_stay(world: World, monkeypatch: pytest.MonkeyPatch):
    sync, full = gone(world)
    world.state.put(RoleRecord(Role.PROMOTED, 1, "run", 0), full)
    sync.look()
    world.delete(world.target, full)
    monkeypatch.setattr(gone_topics, "GRACE_MS", -1)
    before = keys_of(world, full)
    world.sync().look()
    assert keys_of(world, full) == before


@pytest.mark.wide
def test_never_after_a_promotion(world: World):
    sync, full = gone(world)
    world.state.put(RoleRecord(Role.PROMOTED, 1, "run", 0), full)
    for _ in range(3):
        assert sync.look().changes == []
    assert full in topic_names(world.target)


@pytest.mark.wide
def test_a_source_that_hides_a_topic_or_does_not_answer_has_deleted_nothing(
    cluster_factory, target: LocalCluster, monkeypatch: pytest.MonkeyPatch
):
    guarded = cluster_factory("guarded", sasl=True, authorizer=True)
    world = World(guarded, target, client=guarded.client_properties(ADMIN))
    world.state.load()
    full = world.create(world.source, "orders")
    everything = AclBinding(
        ResourceType.TOPIC, full, ResourcePatternType.LITERAL, "User:app", "*",
        AclOperation.ALL, AclPermissionType.ALLOW,
    )  # fmt: skip
    for future in world.source.admin.create_acls([everything]).values():
        future.result(30)
    app = Cluster.connect(
        ClusterSettings(
            alias=world.source.alias, bootstrap_servers=guarded.bootstrap(),
            client=guarded.client_properties("app"),
        )
    )  # fmt: skip
    sync = TopicSync(app, world.target, world.flow(on_source_deleted="mirror"), world.state)
    eventually(lambda: full in sync.look().copied, what="the permission")

    every = AclBindingFilter(
        ResourceType.TOPIC, full, ResourcePatternType.LITERAL, None, None,  # type: ignore[arg-type]  # None: any
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    for future in world.source.admin.delete_acls([every]).values():
        future.result(30)
    eventually(lambda: full in sync.look().left_out, what="the loss of the permission")
    for _ in range(3):
        found = sync.look()
        assert found.left_out[full].startswith("source_deleted")
        assert found.changes == []

    guarded.stop()
    monkeypatch.setattr("drkit.kafka.topics.CALL_SECONDS", 2.0)
    for _ in range(2):
        with pytest.raises(DrkitError):
            sync.look()
    assert full in topic_names(world.target)
    world.state.close()
