"""Who may read and write one of drkit's topics, and has no control key, writes there as its producer.

Brokers answer the next batch of that producer as a repeated one then, and do not append it.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from drkit.copy_task.target.bulk import BulkAppender
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.offset_map.bucket import Pair
from drkit.offset_map.writer import MapWriter
from drkit.offsets.map_codec import about
from drkit.offsets.map_record import MapRecordKind
from drkit.replay import tail as tails
from drkit.replay.writer import PartitionReplay
from tests.support.flow_state.keys import KEYS
from tests.support.flows.compare import check_copy
from tests.support.flows.exactness import every_offset
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS
from tests.support.flows.produce import aged, fill
from tests.support.kafka.attacks import JUNK, stored, take_sequence
from tests.support.replay.world import ReplayWorld, own, tail

NUMBER, PIECE = 60, 25
"""Records of a tail, and of it in one transaction."""


def test_the_claim_of_a_live_record_is_written_again(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    flow = flow_factory(source, target, buckets=1, control=KEYS)
    flow.create_both(topic_name, retention_ms="-1")
    send, written = MapWriter._send, list[Pair]()

    async def sent(self: MapWriter, batch: list[Pair]) -> None:
        claims = [pair for pair in batch if about(pair[0])[1] is MapRecordKind.INTENT]
        if claims and not written:
            transactions = self._transactions
            at = TopicPartition(flow.map_topic, 0)
            await take_sequence(transactions.cluster, at, transactions.identity.id)
        written.extend(claims)
        await send(self, batch)

    monkeypatch.setattr(MapWriter, "_send", sent)
    fill(flow.source, topic_name, 20)
    flow.copy(topic_name)

    there = stored(flow.target, flow.map_topic)
    assert JUNK.key in {record.key for record in there}
    assert written
    assert set(written) <= {(record.key, record.value) for record in there}
    check_copy(flow, topic_name, uncommitted=False)
    every_offset(flow, topic_name)


def test_a_transaction_without_its_claims_is_aborted(
    flow_factory: FlowFactory, source: LocalCluster, target: LocalCluster, topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    flow = flow_factory(source, target, buckets=1, control=KEYS, bulk_commit_bytes=1)
    flow.create_both(topic_name, retention_ms="-1")
    fill(flow.source, topic_name, 12, size=400_000, timestamp=aged(2 * DAY_MS))
    write, calls = BulkAppender._write_progress, list[int]()

    async def written(self: BulkAppender, placed: Any) -> None:
        calls.append(len(placed))
        if len(calls) == 2:
            at = TopicPartition(flow.map_topic, self._bucket)
            await take_sequence(self._task.links.target, at, self._transactions.identity.id)
        await write(self, placed)

    monkeypatch.setattr(BulkAppender, "_write_progress", written)
    flow.copy(topic_name)

    assert len(calls) > 2
    assert JUNK.key in {record.key for record in stored(flow.target, flow.map_topic)}
    check_copy(flow, topic_name, uncommitted=False)
    every_offset(flow, topic_name)


def test_a_replay_without_its_progress_repeats_no_record(
    target: LocalCluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(ReplayWorld(target, tmp_path, control=KEYS)) as world:
        mine, lost = world.promoted(topic_name), tail(NUMBER)
        manifest = world.export({TopicPartition(topic_name, 0): lost})
        write, calls = PartitionReplay._produce_log, list[Any]()

        async def written(self: PartitionReplay, records: Any) -> None:
            calls.append(records)
            if len(calls) == 4:
                newest = stored(world.target, world.log_topic)[-1]
                producer_id = self._transactions.identity.id
                await take_sequence(self._side.cluster, self._log.at, producer_id, newest)
            await write(self, records)

        with monkeypatch.context() as patch:
            patch.setattr(tails, "_PIECE_RECORDS", PIECE)
            patch.setattr(PartitionReplay, "_produce_log", written)
            world.replay(manifest)
        assert len(calls) > 4
        assert len(own(world.seen(mine))) == NUMBER
