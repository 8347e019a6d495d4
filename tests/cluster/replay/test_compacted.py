"""Compacted topics: a key that a client has written since the failover keeps its newer value."""

from __future__ import annotations

import pytest

from drkit.errors import Refused
from drkit.flow_state.records import HeldSettingsRecord, Role, RoleRecord
from drkit.model import TopicPartition
from drkit.replay.compare import ChangedKey, Same
from drkit.replay.writer import PartitionReplay, ReplayResult
from drkit.wire import Record
from tests.support.errors import coded
from tests.support.flows.produce import now_ms
from tests.support.replay.world import ReplayWorld, as_replayed, own, run_of, tail

COMPACTED = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "86400000",
}


def of_keys(*keys: bytes, first: int = 50, word: bytes = b"old") -> list[Record]:
    return [Record(first + n, now_ms() - 1000, key, word, ()) for n, key in enumerate(keys)]


def test_keys_that_changed_are_not_sent(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name, 1, COMPACTED), TopicPartition(topic_name, 0)
    lost = of_keys(b"a", b"b", b"c", b"b")
    world.write(mine, [*of_keys(b"b", word=b"newer"), lost[0]])
    manifest = world.export({at: lost})
    counts = world.plan(manifest).partitions[0].counts
    assert (counts.alike, counts.changed) == (1, 2)
    assert counts.changed_keys == (ChangedKey(51, b"b"), ChangedKey(53, b"b"))
    assert world.replay(manifest, Same.CONTENT) == {str(at): ReplayResult(1, 1, 2)}
    assert [s.content for s in own(world.seen(mine))] == as_replayed([lost[2]], at, run_of(manifest))


def test_where_others_may_be_equal_their_keys_have_changed(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name, 1, COMPACTED), TopicPartition(topic_name, 0)
    lost = of_keys(b"a", b"b")
    world.write(mine, [lost[0]])
    assert world.replay(world.export({at: lost}), Same.NONE) == {str(at): ReplayResult(1, 0, 1)}


def test_a_client_that_writes_a_key_meanwhile(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the partition and the append: that transaction is aborted, the key left out."""
    mine, at = world.promoted(topic_name, 1, COMPACTED), TopicPartition(topic_name, 0)
    lost = of_keys(b"a", b"b", b"c")
    produce, written = PartitionReplay._produce, list[bool]()

    async def after_a_client(replay: PartitionReplay, records: list[Record]) -> int:
        if not written:
            written.append(True)
            world.write(mine, of_keys(b"b", word=b"newest"))
        return await produce(replay, records)

    monkeypatch.setattr(PartitionReplay, "_produce", after_a_client)
    manifest = world.export({at: lost})
    assert world.replay(manifest) == {str(at): ReplayResult(2, 0, 1)}
    left = [lost[0], lost[2]]
    assert [s.content for s in own(world.seen(mine))] == as_replayed(left, at, run_of(manifest))
    dirty = own(world.seen(mine, isolation="read_uncommitted"))
    assert len(dirty) == 3 + 2, "the first transaction was aborted"


def test_deletions_that_may_be_gone(world: ReplayWorld, topic_name: str) -> None:
    kept = {"min.compaction.lag.ms": "9999999"}
    mine, at = (
        world.promoted(topic_name, 1, {**COMPACTED, **kept, "delete.retention.ms": "60000"}),
        topic_name,
    )
    manifest = world.export({TopicPartition(at, 0): of_keys(b"a")})
    with world.state() as state:
        state.load()
        role = state.get(RoleRecord, at)
        assert role is not None
        earlier = now_ms() - 61_000
        state.put(RoleRecord(Role.PROMOTED, 7, "failover", earlier, frontiers={}, ends=role.ends), at)
    before = world.offsets(world.target, mine)
    with pytest.raises(Refused, check=coded("deleted_keys_return")):
        world.plan(manifest)
    assert world.offsets(world.target, mine) == before
    with world.state() as state:
        state.load()
        state.put(HeldSettingsRecord(earlier + 1, "ada", dict.fromkeys(kept), kept), at)
    assert world.plan(manifest), "a hold has stopped the cleaner in time"
    assert world.replay(manifest, quarantine=True) == {f"{at}-0": ReplayResult(1, 0, 0)}


def test_a_record_without_a_key(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name, 1, COMPACTED), TopicPartition(topic_name, 0)
    lost = [*of_keys(b"a"), *[r._replace(key=None, offset=60) for r in tail(1)]]
    with pytest.raises(Refused, check=coded("record_refused")):
        world.replay(world.export({at: lost}))
    assert not own(world.seen(mine)), "nothing of the transaction counts"
