"""What a copy task writes equals the source's committed records, whatever they look like."""

from __future__ import annotations

import os
import random

import pytest

from tests.support.circles import in_wide
from tests.support.flows.compare import check_copy, read
from tests.support.flows.flow import DAY_MS, Flow, partition_states
from tests.support.flows.produce import (
    fill,
    fill_transactions,
    now_ms,
    producer,
    put,
    text,
    wait_for_markers,
)


@pytest.mark.parametrize(
    "codec", [in_wide("none"), in_wide("gzip"), in_wide("snappy"), in_wide("lz4"), "zstd"]
)
def test_every_codec(flow: Flow, topic_name: str, codec: str) -> None:
    flow.create_both(topic_name, 3)
    fill(flow.source, topic_name, 6000, compression_type=codec, size=100)
    report = flow.copy(topic_name)
    assert report.ended == "once"
    assert sum(check_copy(flow, topic_name).values()) == report.records == 6000
    fill(flow.source, topic_name, 500, first=6000, compression_type=codec)
    assert flow.copy(topic_name).records == 500
    check_copy(flow, topic_name)
    assert flow.copy(topic_name).records == 0
    check_copy(flow, topic_name)


def test_tiny_batches_of_mixed_codecs(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name, 2)
    for i, codec in enumerate(["none", "lz4", "none", "zstd", "gzip", "snappy", "none"]):
        fill(flow.source, topic_name, 150, first=150 * i, compression_type=codec, flush_every=3, linger_ms=0)
    assert flow.copy(topic_name).records == 1050
    check_copy(flow, topic_name)
    assert not flow.events()


def test_transactions_of_which_a_third_aborts(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name, 3)
    for seed in range(3):
        assert fill_transactions(flow.source, [topic_name], 3000, seed=seed, most=120) > 0
        fill(flow.source, topic_name, 300)
        flow.copy(topic_name)
    check_copy(flow, topic_name)


@pytest.mark.wide
def test_interleaved_transactions(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    chance = random.Random(3)
    writers = [producer(flow.source, transactional_id=f"{topic_name}-{n}") for n in range(4)]
    for writer in writers:
        writer.init_transactions(30)
    for i in range(60):
        for writer in writers:
            writer.begin_transaction()
        for _ in range(3):
            for n, writer in enumerate(writers):
                for _ in range(chance.randint(0, 5)):
                    put(writer, topic_name, text(i), b"%d" % n)
                writer.flush(30)
        chance.shuffle(writers)
        for writer in writers:
            (writer.abort_transaction if chance.random() < 0.3 else writer.commit_transaction)(30)
        if i % 20 == 7:
            flow.copy(topic_name)
    for n in range(4):
        wait_for_markers(flow.source, f"{topic_name}-{n}")
    flow.copy(topic_name)
    check_copy(flow, topic_name)


def test_an_open_transaction_holds_back_what_comes_after_it(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 100)
    writer = producer(flow.source, transactional_id=topic_name)
    writer.init_transactions(30)
    writer.begin_transaction()
    put(writer, topic_name, b"open")
    writer.flush(30)
    fill(flow.source, topic_name, 100, first=100)
    assert flow.copy(topic_name).records == 100
    check_copy(flow, topic_name)
    writer.abort_transaction(30)
    wait_for_markers(flow.source, topic_name)
    assert flow.copy(topic_name).records == 100
    check_copy(flow, topic_name)


def test_records_of_2_mib(flow: Flow, topic_name: str) -> None:
    size = 2 << 20
    flow.create_both(topic_name, 2, max_message_bytes=str(3 << 20))
    writer = producer(flow.source, message_max_bytes=4 << 20, compression_type="lz4")
    for i in range(12):
        put(writer, topic_name, os.urandom(size) if i % 2 else b"z" * size, b"%d" % i)
        put(writer, topic_name, text(i), b"small")
    assert writer.flush(60) == 0
    assert flow.copy(topic_name, max_message_bytes=3 << 20).records == 24
    check_copy(flow, topic_name)


def test_empty_partitions(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name, 5)
    assert flow.copy(topic_name).records == 0
    writer = producer(flow.source)
    put(writer, topic_name, b"v", b"k", partition=3)
    writer.flush()
    for _ in range(2):
        flow.copy(topic_name)
        assert check_copy(flow, topic_name) == {0: 0, 1: 0, 2: 0, 3: 1, 4: 0}


def test_a_partition_of_aborted_records_only(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    fill_transactions(flow.source, [topic_name], 500, aborts=1.1)
    flow.copy(topic_name)
    assert check_copy(flow, topic_name) == {0: 0}
    fill(flow.source, topic_name, 10)
    assert flow.copy(topic_name).records == 10
    check_copy(flow, topic_name)


def test_a_trimmed_source(flow: Flow, topic_name: str) -> None:
    """DeleteRecords cuts inside a batch: the copy starts at the first record that still counts."""
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 1000, linger_ms=200, compression_type="lz4")
    whole = read(flow.source, topic_name)[0]
    for start in (137, 411):
        flow.delete_records(topic_name, 0, start)
        flow.copy(topic_name)
        check_copy(flow, topic_name, expected=lambda _, seen: [*whole[137 : 1000 - len(seen)], *seen])


def test_log_append_time(flow: Flow, topic_name: str) -> None:
    """A consumer of the target sees the times that a consumer of the source sees."""
    flow.create_both(topic_name, 2, message_timestamp_type="LogAppendTime")
    fill(flow.source, topic_name, 3000, compression_type="zstd", timestamp=lambda i: 1000 + i)
    fill(flow.source, topic_name, 200, flush_every=2, timestamp=lambda i: 1000 + i)
    assert flow.copy(topic_name).records == 3200
    check_copy(flow, topic_name)


def test_records_in_the_future(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name, 2, message_timestamp_after_max_ms=str((1 << 63) - 1))
    later = now_ms() + 400 * DAY_MS
    fill(flow.source, topic_name, 2000, timestamp=lambda i: later + (i * 7919) % 100_000)
    assert flow.copy(topic_name).records == 2000
    fill(flow.source, topic_name, 500)
    assert flow.copy(topic_name).records == 500
    check_copy(flow, topic_name)


def test_nulls_empties_and_many_headers(flow: Flow, topic_name: str) -> None:
    flow.create_both(topic_name)
    chance = random.Random(5)
    for codec in ("none", "lz4"):
        writer = producer(flow.source, compression_type=codec)
        for i in range(400):
            value = (None, b"", b"v%d" % i, os.urandom(chance.randint(0, 3000)))[i % 4]
            key = (None, b"", b"k")[i % 3]
            headers = [(f"h{n}", (None, b"", os.urandom(9))[n % 3]) for n in range(i % 60)] + [("ü", b"\xff")]
            put(writer, topic_name, value, key, headers=headers)
        assert writer.flush(30) == 0
    assert flow.copy(topic_name).records == 800
    check_copy(flow, topic_name)


@pytest.mark.wide
def test_many_partitions_of_many_topics(flow: Flow, topic_name: str) -> None:
    """P3: each partition has the records of the same partition of its source, in order."""
    names = [flow.create_both(f"{topic_name}-{n}", 1 + 7 * n) for n in range(4)]
    for name in names:
        fill(flow.source, name, 700, compression_type="snappy")
    report = flow.copy(*names)
    assert report.records == 2800
    assert {state for state, _ in partition_states(report).values()} == {"live"}
    for name in names:
        check_copy(flow, name)
