"""A copy task that ended in a bulk transaction; the coordinator leaves out its markers."""

from __future__ import annotations

from collections.abc import Collection

from drkit.config import FlowSettings
from drkit.flow_state.names import bulk_transactional_id, offset_map_topic, state_topic
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import Append, TopicMetadata, fetch_one, metadata, produce_request
from drkit.kafka.transactions import Transactions
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, batch_of, pairs
from drkit.offset_map.reading import read_on
from drkit.offset_map.topic import bucket_of
from drkit.offsets import Intent, MapKey, PartitionMap
from drkit.offsets.map_record import Mode
from drkit.wire import split, stamp
from tests.support.failover.open_transaction import before_implicit_adding
from tests.support.flows.clusters import Clusters
from tests.support.flows.produce import now_ms

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Properties of a broker whose coordinator may know nothing of what is written to a partition. Such a
partition gets no marker, as if the coordinator had left it out (docs/internal/upstream.md)."""
DATA, MAP = "data", "map"


class EarlierTask:
    """Copies one batch of partition 0 of a topic in a transaction of its bucket, from a source offset on.

    :param settings: of the flow
    """

    def __init__(self, clusters: Clusters, settings: FlowSettings, topic: str, first: int) -> None:
        self._clusters, self._settings, self._first = clusters, settings, first
        self._map = TopicPartition(offset_map_topic(settings.source), bucket_of(topic, 0, settings.buckets))
        self._places = {DATA: TopicPartition(topic, 0), MAP: self._map}

    def works(self, known: Collection[str]) -> None:
        """Write records and their map, and commit.

        :param known: the partitions that the coordinator knows, of ``DATA`` and ``MAP``
        """
        self._clusters.ask(self._clusters.source, self._read)
        self._clusters.ask(self._clusters.target, self._write, known)

    async def _read(self, raw: RawCluster) -> None:
        name = self._places[DATA].topic
        topic = (await metadata(raw, [name]))[name]
        answer = await fetch_one(raw, topic.leaders[0].node, (name, topic.topic_id), 0, self._first)
        ((header, batch),) = split(answer.records)
        self._source_id, self._data = topic.topic_id, bytearray(batch)
        self._records = header.last_offset_delta + 1
        self._data[:8] = bytes(8)

    async def _write(self, raw: RawCluster, known: Collection[str]) -> None:
        settings, data, offset_map = self._settings, self._places[DATA], self._map
        name = bulk_transactional_id(settings.source, settings.target, offset_map.partition)
        transactions = Transactions(raw, name)
        await transactions.begin_epoch()
        topics = await metadata(raw, [data.topic, offset_map.topic])
        bucket = MapBucket(offset_map.partition, offset_map.topic)
        await read_on(raw, topics[offset_map.topic], bucket)
        key = MapKey(self._source_id, topics[data.topic].topic_id, 0)
        stand_in = TopicPartition(state_topic(settings.source), 0)
        await transactions.add([self._places[k] for k in sorted(known)] or [stand_in])
        base = await self._append(raw, topics[data.topic], data, self._data, transactions)
        record, _ = batch_of(pairs([(key, self._intent(bucket.partitions[key], base))]), now_ms())
        await self._append(raw, topics[offset_map.topic], offset_map, record, transactions)
        await transactions.end(commit=True)

    @staticmethod
    async def _append(
        raw: RawCluster, topic: TopicMetadata, tp: TopicPartition, data: bytearray, by: Transactions
    ) -> int:
        stamp(data, *by.identity, 0, transactional=True)
        append = Append(tp.topic, topic.topic_id, tp.partition, data)
        request = produce_request([append], transactional_id=by.transactional_id)
        answer = await raw.send(before_implicit_adding(request), topic.leaders[tp.partition].node)
        response = answer.responses[0].partition_responses[0]
        assert not response.error_code
        return int(response.base_offset)

    def _intent(self, state: PartitionMap, base: int) -> Intent:
        tail = state.tail
        assert tail is not None
        return Intent(
            Mode.BULK, 7, tail.history, tail.sequence, base, tail.copied_end, 0,
            ((self._first, self._records),), 0,
        )  # fmt: skip
