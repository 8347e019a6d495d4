"""Many windows are read with few bytes, each record once; a look without an answer gives no window."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.copy_task.core.context import Throttle
from drkit.drill.record_windows import FETCH_BYTES, LogSpan, RecordWindowReader
from drkit.failover.loss.log_cursor import LogSide
from drkit.kafka.raw import RawError
from drkit.kafka.requests import PartitionLeader, TopicMetadata
from drkit.model import TopicPartition
from tests.support.wire.forge import Batch, batch

SMALL = [batch(base, 2) for base in range(0, 400, 2)]


class Broker:
    """Answers fetches as Kafka does: only the first partition gets a batch that is larger than the limit."""

    def __init__(self, logs: dict[int, list[Batch]]) -> None:
        self.alias, self.loop, self.logs = "a", self, logs
        self.fetched: list[tuple[int, int]] = []
        self.sent_bytes, self.slept, self.silent = 0, 0.0, set[int]()

    async def together(self, coroutine: Any, each: Iterable[Any]) -> list[Any]:
        return [await coroutine(one) for one in each]

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds

    async def send(self, request: Any, node: int, **_: Any) -> Any:
        assert node == 1
        wanted = request.topics[0].partitions
        if self.silent & {p.partition for p in wanted}:
            raise RawError
        answers, is_first = [], True
        for p in wanted:
            self.fetched.append((p.partition, p.fetch_offset))
            data = b"".join(b.to_bytes() for b in self.logs[p.partition] if b.end > p.fetch_offset)
            first = next(b.to_bytes() for b in self.logs[p.partition] if b.end > p.fetch_offset)
            limit = max(p.partition_max_bytes, len(first) if is_first else 0)
            data = data[:limit] if len(first) <= limit else b""
            is_first = is_first and not data
            self.sent_bytes += len(data)
            answers.append(
                SimpleNamespace(
                    partition_index=p.partition, records=data, error_code=0, aborted_transactions=None
                )
            )
        return SimpleNamespace(responses=[SimpleNamespace(partitions=answers)])


def read(broker: Broker, offsets: dict[int, list[int]], rate: float = 1e9) -> RecordWindowReader:
    topic = TopicMetadata(0, UUID(int=1), {p: PartitionLeader(1, 0) for p in broker.logs})
    spans = {TopicPartition("t", p): LogSpan(0, log[-1].end) for p, log in broker.logs.items()}
    side = LogSide(broker, {"t": topic})  # type: ignore[arg-type]
    reader = RecordWindowReader(side, spans, Throttle(rate, lambda: 0.0))
    points = [(TopicPartition("t", p), offset) for p, some in offsets.items() for offset in some]
    with pytest.raises(StopIteration):
        reader.read(points).send(None)
    return reader


def offsets_of(reader: RecordWindowReader, partition: int, offset: int) -> list[int]:
    return [r.offset for r in reader.windows[TopicPartition("t", partition), offset].records]


def test_each_record_is_read_once_and_one_request_serves_all_partitions() -> None:
    broker = Broker({0: SMALL, 1: SMALL})
    wanted = list(range(0, 400, 3))
    reader = read(broker, {0: wanted, 1: wanted})
    for partition in (0, 1):
        for offset in wanted:
            expected = list(range(offset, min(400, offset + 3)))
            assert offsets_of(reader, partition, offset) == expected
            window = reader.windows[TopicPartition("t", partition), offset]
            assert window.at_end is (offset >= 397)
    size = sum(len(b.to_bytes()) for b in SMALL)
    assert size <= broker.sent_bytes / 2 <= 1.2 * size
    assert len(broker.fetched) == 2 * reader.requests
    assert len(set(broker.fetched)) == len(broker.fetched)


def test_distant_offsets_cost_a_few_kib_each() -> None:
    log = [batch(base, 2) for base in range(0, 20_000, 2)]
    broker = Broker({0: log})
    reader = read(broker, {0: [100, 9_000, 19_999, 20_000]})
    assert offsets_of(reader, 0, 9_000) == [9_000, 9_001, 9_002]
    assert [len(offsets_of(reader, 0, o)) for o in (19_999, 20_000)] == [1, 0]
    assert broker.sent_bytes <= 3 * FETCH_BYTES


def test_a_batch_larger_than_the_limit_is_fetched_alone_and_the_next_ones_together() -> None:
    large = [batch(base, 400) for base in range(0, 4_000, 400)]
    broker = Broker(dict.fromkeys(range(3), large))
    reader = read(broker, {p: [0, 1_000, 3_000] for p in range(3)})
    assert offsets_of(reader, 2, 1_000) == [1_000, 1_001, 1_002]
    assert reader.requests < 3 * 3
    assert not reader.failures


def test_the_limit_of_bytes_per_second_is_kept() -> None:
    broker = Broker({0: SMALL, 1: SMALL})
    read(broker, {0: [0, 200, 390], 1: [0]}, rate=1_000.0)
    assert broker.slept >= broker.sent_bytes / 1_000 - 1e-6


def test_a_silent_partition_has_no_window_and_the_others_have_theirs() -> None:
    broker = Broker({0: SMALL, 1: SMALL})
    broker.silent = {1}
    reader = read(broker, {0: [0], 1: [0, 10]})
    assert set(reader.windows) == {(TopicPartition("t", 0), 0)}
    assert set(reader.failures) == {TopicPartition("t", 1)}
    assert "stopped answering" in reader.failures[TopicPartition("t", 1)]
