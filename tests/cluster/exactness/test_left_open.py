"""Transactions of drkit's own that miss markers: a broker that shut down left them out, or lost them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from drkit.copy_task.target import bulk
from drkit.copy_task.target.left_open import is_in_map
from drkit.flow_state.names import bulk_transactional_id
from drkit.kafka.raw import Future, RawCluster
from drkit.kafka.requests import Append, fetch_one, metadata, produce_request
from drkit.kafka.transactions import ProducerIdentity, Transactions
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, batch_of, pairs
from drkit.offset_map.reading import read_on
from drkit.offset_map.topic import bucket_of
from drkit.offsets import History, Intent, MapKey, PartitionMap
from drkit.offsets.map_record import Mode
from drkit.wire import split, stamp
from tests.support.circles import in_wide
from tests.support.exactness.truth import Truth
from tests.support.failover.open_transaction import before_implicit_adding
from tests.support.flows.flow import Flow
from tests.support.flows.produce import aged, fill, now_ms

SOURCE = None
# As a coordinator that leaves a marker out: it knows nothing of what is written to that partition.
TARGET = {"properties": {"transaction.partition.verification.enable": "false"}}
OLD = aged(3 * 365 * 86_400_000)
COPIED, OPEN, LATER = 10, 5, 7


class EarlierTask:
    """A task that copied the source's next records in a transaction of its bucket."""

    def __init__(self, flow: Flow, topic: str) -> None:
        self.flow, self.topic = flow, topic
        self.bucket = bucket_of(topic, 0, flow.settings.buckets)

    def works(self, known: set[str]) -> None:
        """Write records and their map; the coordinator knows only some of the partitions, and commits."""
        self.flow.ask(self.flow.source, self._read)
        self.flow.ask(self.flow.target, self._write, known)

    async def _read(self, raw: RawCluster) -> None:
        topic = (await metadata(raw, [self.topic]))[self.topic]
        answer = await fetch_one(raw, topic.leaders[0].node, (self.topic, topic.topic_id), 0, COPIED)
        ((header, batch),) = split(answer.records)
        assert header.last_offset_delta + 1 == OPEN
        self._source_id, self._data = topic.topic_id, bytearray(batch)
        self._data[:8] = bytes(8)

    async def _write(self, raw: RawCluster, known: set[str]) -> None:
        flow = self.flow
        name = bulk_transactional_id(flow.settings.source, flow.settings.target, self.bucket)
        transactions = Transactions(raw, name)
        await transactions.begin_epoch()
        topics = await metadata(raw, [self.topic, flow.map_topic])
        bucket = MapBucket(self.bucket, flow.map_topic)
        await read_on(raw, topics[flow.map_topic], bucket)
        key = MapKey(self._source_id, topics[self.topic].topic_id, 0)
        record, _ = batch_of(pairs([(key, _next(bucket.partitions[key]))]), now_ms())
        places = {"data": TopicPartition(self.topic, 0), "map": TopicPartition(flow.map_topic, self.bucket)}
        await transactions.add([places[k] for k in sorted(known)] or [TopicPartition(flow.state_topic, 0)])
        for at, data in ((places["data"], self._data), (places["map"], record)):
            identity = transactions.identity
            stamp(data, identity.id, identity.epoch, 0, transactional=True)
            append = Append(at.topic, topics[at.topic].topic_id, at.partition, data)
            request = before_implicit_adding(produce_request([append], transactional_id=name))
            answer = await raw.send(request, topics[at.topic].leaders[at.partition].node)
            assert not answer.responses[0].partition_responses[0].error_code
        await transactions.end(commit=True)


def _next(state: PartitionMap) -> Intent:
    tail = state.tail
    assert tail is not None
    return Intent(
        Mode.BULK, 7, tail.history, tail.sequence, tail.downstream + 1, tail.copied_end, 0,
        ((COPIED, OPEN),), 0,
    )  # fmt: skip


@pytest.mark.wide
@pytest.mark.parametrize(
    ("known", "committed"),
    [
        (set(), [False, False]),
        in_wide({"map"}, [True]),
        in_wide({"data"}, [True]),
        in_wide({"data", "map"}, []),
    ],
    ids=["both-open", "data-open", "map-open", "all-ended"],
)
def test_the_next_task_ends_them(flow: Flow, topic_name: str, known: set[str], committed: list[bool]) -> None:
    flow.create_both(topic_name, retention_ms="-1")
    truth = Truth(flow, topic_name)
    fill(flow.source, topic_name, COPIED, timestamp=OLD, linger_ms=200)
    flow.copy(topic_name)
    fill(flow.source, topic_name, OPEN, first=100, timestamp=OLD, linger_ms=200)
    EarlierTask(flow, topic_name).works(known)
    fill(flow.source, topic_name, LATER, first=200, timestamp=OLD)
    flow.copy(topic_name)
    truth.is_exact(more_than=COPIED + OPEN + LATER - 1)
    assert [e["committed"] for e in flow.events("transaction_ended")] == committed


@pytest.mark.parametrize("missing", ["data", "map"])
def test_an_abort_takes_back_nothing_of_the_transaction_before_it(
    flow: Flow, topic_name: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker ends everything that a producer has open on a partition, also of an earlier transaction."""
    flow.settings = flow.settings.model_copy(update={"bulk_commit_bytes": 1, "merge_below_bytes": 0})
    flow.create_both(topic_name, retention_ms="-1")
    truth, commits = Truth(flow, topic_name), list[bool]()
    add, end = Transactions.add, Transactions.end

    async def added(self: Transactions, partitions: Iterable[TopicPartition]) -> None:
        hidden = topic_name if missing == "data" else flow.map_topic
        await add(self, [tp for tp in partitions if commits or tp.topic != hidden])

    async def ended(self: Transactions, *, commit: bool) -> None:
        await end(self, commit=commit)
        commits.append(commit)

    async def moved(*_: object) -> bool:
        return len(commits) == 1  # until the second one is broken

    async def began(self: Transactions) -> ProducerIdentity:
        commits.extend([False] * (len(commits) == 1))
        return await begin(self)

    def answered(answers: dict[Any, Future], completed: Future, response: Any) -> None:
        for future in answers.values():  # of one partition; that version names no topic id
            future.success(response.responses[0].partition_responses[0])
        completed.success(None)

    begin = Transactions.begin_epoch
    for name, patch in (("add", added), ("end", ended), ("begin_epoch", began)):
        monkeypatch.setattr(Transactions, name, patch)
    monkeypatch.setattr(
        bulk, "produce_request", lambda *a, **k: before_implicit_adding(produce_request(*a, **k))
    )
    monkeypatch.setattr(bulk.BulkAppender, "_answered", staticmethod(answered))
    monkeypatch.setattr(bulk, "moved", moved)
    for number in range(5):
        fill(flow.source, topic_name, COPIED, first=number * COPIED, timestamp=OLD, linger_ms=200)
    flow.copy(topic_name)
    assert len(commits) > 2
    truth.is_exact(more_than=5 * COPIED - 1)
    assert [e["committed"] for e in flow.events("transaction_ended")] == [True]


@pytest.mark.wide
def test_what_a_later_transaction_copied_elsewhere_says_nothing_of_an_open_one() -> None:
    """The first one's abort marker is lost with all of the second one; the map knows the second one alone."""
    history = History(77, 0)
    state = PartitionMap()
    state.apply(Intent(Mode.BULK, 1, history, 0, 0, 0, 0, ((0, 100),), 0))
    state.apply(Intent(Mode.BULK, 2, history, 0, 150, 100, 0, ((100, 30),), 0))
    assert [is_in_map(state, at) for at in (0, 101, 150, 180)] == [True, False, True, False]
