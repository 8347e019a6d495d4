"""Spark's offset logs as Spark writes them: samples of real ones, and arbitrary other content."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.model import TopicPartition
from drkit.offsets.spark_query import FirstOffsets, LoggedBatch, UnreadableLog, kafka_offsets, kafka_text

SETTINGS = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1763737200000,"conf":{"spark.sql.shuffle.partitions":"2"}}'
)
KAFKA = '{"orders":{"1":7,"0":12},"payments":{"0":3}}'
V1 = f'v1\n{SETTINGS}\n{KAFKA}\n-\n{{"logOffset":4}}\n{{"0":{{"value":1,"runTimeMs":9}}}}'.encode()
V2 = f'v2\n{SETTINGS}\norders-in:{KAFKA}\n1:-\nfiles:{{"logOffset":4}}'.encode()

topics = st.text(st.sampled_from("abz.-_0"), min_size=1, max_size=8)
offsets = st.dictionaries(
    st.builds(TopicPartition, topics, st.integers(0, 300)), st.integers(-2, 1 << 62), min_size=1, max_size=8
)


def test_a_log_of_numbered_sources() -> None:
    batch = LoggedBatch.parse(V1)
    assert batch.kafka() == {
        "0": {
            TopicPartition("orders", 0): 12,
            TopicPartition("orders", 1): 7,
            TopicPartition("payments", 0): 3,
        }
    }
    assert batch.sources["1"] is None
    assert batch.encode() == V1


def test_a_log_of_named_sources() -> None:
    batch = LoggedBatch.parse(V2)
    assert list(batch.sources) == ["orders-in", "1", "files"]
    assert batch.encode() == V2
    new = batch.with_kafka({"orders-in": {TopicPartition("a.orders", 3): 5}})
    assert new.encode() == V2.replace(KAFKA.encode(), b'{"a.orders":{"3":5}}')


@given(st.lists(st.one_of(st.none(), offsets.map(kafka_text), st.just('{"x":1}')), max_size=4))
def test_what_is_written_is_what_is_read(texts: list[str | None]) -> None:
    batch = LoggedBatch("v1", SETTINGS, {str(i): text for i, text in enumerate(texts)})
    assert LoggedBatch.parse(batch.encode()) == batch


@given(offsets)
def test_kafka_offsets_there_and_back(some: dict[TopicPartition, int]) -> None:
    assert kafka_offsets(kafka_text(some)) == some


def test_kafka_offsets_look_as_spark_writes_them() -> None:
    some = {TopicPartition("b", 10): 2, TopicPartition("b", 9): 1, TopicPartition("a", 0): 0}
    assert kafka_text(some) == '{"a":{"0":0},"b":{"9":1,"10":2}}'


@pytest.mark.parametrize(
    "text",
    [
        "12",
        "",
        "not JSON",
        "{}",
        "[1]",
        '{"logOffset":3}',
        '{"0":{"value":1,"runTimeMs":5}}',
        '{"topic":{"0":"12"}}',
        '{"topic":{"0":true}}',
        '{"topic":{"0":1.5}}',
        '{"topic":{"zero":1}}',
        '{"topic":{"-1":1}}',
        '{"topic":[0,1]}',
    ],
)
def test_other_sources_are_not_taken_for_kafka(text: str) -> None:
    assert kafka_offsets(text) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "first line"),
        (b"v3\n{}\n-", "known are v1 and v2"),
        (b"v1", "ends after"),
        (b"v2\n{}\nno name", "without a source's name"),
        (b"\xff\xfe", "not text"),
    ],
)
def test_what_spark_does_not_write_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(UnreadableLog, match=why):
        LoggedBatch.parse(data)


@pytest.mark.parametrize("header", [b"\0v1\n", b"\0"])
def test_first_offsets_of_spark_today_and_of_2_1(header: bytes) -> None:
    first = FirstOffsets.parse(header + KAFKA.encode())
    assert first is not None
    assert first.offsets == kafka_offsets(KAFKA)
    assert first.encode({TopicPartition("t", 1): 4}) == header + b'{"t":{"1":4}}'


@pytest.mark.parametrize("data", [b"v1\n{}", b"", b"\0v1\n{}", b"\0\xff", KAFKA.encode()])
def test_first_files_of_other_sources_are_left_alone(data: bytes) -> None:
    assert FirstOffsets.parse(data) is None
