"""Any log, any fetch: the transformation against a model that goes record by record."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
import random
from typing import Any

import google_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from drkit.wire import DropReason, How, Record, Transformed
from tests.support.examples import times
from tests.support.wire.forge import ABORT, COMMIT, Batch, copied, marker, parts, run

NOW = 1_700_000_000_000
APPEND_TIME = NOW + 777
OPPOSITE = frozenset({900, 901})
TRANSACTIONAL, LOG_APPEND, HORIZON = 0x10, 0x08, 0x40


@dataclass
class Log:
    """A partition while it is written, and what a read-committed consumer may see of it."""

    rng: random.Random
    next_offset: int
    batches: list[Batch] = field(default_factory=list)
    visible: list[Record] = field(default_factory=list)
    """Of everything but aborted transactions, with the times a consumer sees."""
    open: dict[int, tuple[int, list[Record]]] = field(default_factory=dict)
    """Producer id to first offset and records of its transaction."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer id, first offset, offset of the marker."""

    def append(self) -> None:
        rng = self.rng
        producer_id = rng.choice((-1, -1, 7, 8, 900))
        transactional = producer_id in (7, 8) and rng.random() < 0.7
        span = rng.choice((1, 1, 1, 2, 3, 9, 40))
        kept = [n for n in range(span) if rng.random() < rng.choice((0.5, 1, 1, 1))]
        rows = tuple(self._record(self.next_offset + n) for n in kept)
        attributes = rng.choice((0, 0, 0, LOG_APPEND, HORIZON)) | (TRANSACTIONAL if transactional else 0)
        batch = Batch(
            self.next_offset,
            rows,
            span=span,
            codec=rng.choice((0, 0, 0, 1, 2, 3, 4)),
            attributes=attributes,
            producer_id=producer_id,
            leader_epoch=len(self.batches) // 4,
            base_time=NOW + 86_400_000 if attributes & HORIZON else None,
            max_time=APPEND_TIME if attributes & LOG_APPEND else None,
        )
        seen = [row._replace(timestamp=APPEND_TIME) if attributes & LOG_APPEND else row for row in rows]
        if transactional:
            self.open.setdefault(producer_id, (self.next_offset, []))[1].extend(seen)
        elif producer_id not in OPPOSITE:
            self.visible += seen
        self.batches.append(batch)
        # A hole now and then: batches that compaction removed altogether.
        self.next_offset += span + rng.choice((0, 0, 0, 5))

    def end_transaction(self) -> None:
        if self.open:
            producer_id = self.rng.choice(sorted(self.open))
            first, rows = self.open.pop(producer_id)
            if self.rng.random() < 0.5:
                self.aborted.append((producer_id, first, self.next_offset))
                self.batches.append(marker(self.next_offset, producer_id, ABORT))
            else:
                self.visible += rows
                self.batches.append(marker(self.next_offset, producer_id, COMMIT))
            self.next_offset += 1

    def _record(self, offset: int) -> Record:
        rng = self.rng
        value = None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 3, 60, 200)))
        headers = ((b"h", None), (b"", b"x" * 70))[: rng.randrange(3)]
        return Record(offset, NOW + rng.randrange(-5000, 20_000), rng.choice((None, b"key")), value, headers)


def written(seed: int, size: int) -> Log:
    log = Log(random.Random(seed), next_offset=seed % 1000)
    for _ in range(size):
        log.append()
        if log.rng.random() < 0.4:
            log.end_transaction()
    while log.open:
        log.end_transaction()
    return log


def fetch(log: Log, position: int, limit: int) -> tuple[bytes, list[tuple[int, int]], int]:
    """As a broker answers: from the batch with the position on, cut off anywhere after the first batch."""
    wanted = [each for each in log.batches if each.end > position]
    if not wanted:
        return b"", [], position
    parts = [each.to_bytes() for each in wanted]
    buffer = b"".join(parts)[: max(limit, len(parts[0]))]
    whole, size = 0, 0
    while whole < len(parts) and size + len(parts[whole]) <= len(buffer):
        size += len(parts[whole])
        whole += 1
    end = wanted[whole - 1].end
    aborted = [(pid, first) for pid, first, last in log.aborted if last >= wanted[0].base and first < end]
    return buffer, aborted, end


def accounted(log: Log, done: Transformed, start: int, end: int) -> None:
    """Every offset that still has a record is copied or dropped for a reason, none is both."""
    runs = [(run.source, run.source + run.count) for chunk in done.chunks for run in chunk.runs]
    drops = [(drop.start, drop.end) for drop in done.drops if drop.reason is not DropReason.BEFORE_POSITION]
    spans = sorted(runs + drops)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    offsets = {offset for span in spans for offset in range(*span)}
    present = {row.offset for each in log.batches for row in each.records}
    assert {offset for offset in present if start <= offset < end} <= offsets
    assert all(start <= offset < end for offset in offsets)


KNOBS = st.fixed_dictionaries(
    {
        "merge_below": st.sampled_from([0, 120, 300, 16_384, 1 << 20]),
        "merge_up_to": st.sampled_from([0, 500, 3000, 1 << 18]),
        "max_batch_bytes": st.sampled_from([300, 2000, 1 << 20]),
        "most_records": st.sampled_from([1, 7, 30, 1 << 31]),
    }
)


@settings(max_examples=times(3))
@given(seed=st.integers(0, 1 << 30), size=st.integers(0, 40), limit=st.integers(1, 20_000), knobs=KNOBS)
def test_a_partition_is_copied_fetch_by_fetch(
    seed: int, size: int, limit: int, knobs: dict[str, Any]
) -> None:
    log = written(seed, size)
    position, found = 0, []
    while True:
        buffer, aborted, fetched_to = fetch(log, position, limit)
        done = run(buffer, position=position, aborted=aborted, skip_producer_ids=OPPOSITE, **knobs)
        found += copied(done)
        accounted(log, done, position, fetched_to)
        assert done.next_source == fetched_to
        if not buffer:
            break
        position = done.next_source
        assert all(chunk.size <= knobs["max_batch_bytes"] or chunk.count == 1 for chunk in done.chunks)
        plain = [chunk for chunk in done.chunks if chunk.how is How.MERGED and not chunk.data[22] & 7]
        assert all(chunk.size <= knobs["merge_up_to"] for chunk in plain)
    assert found == sorted(log.visible)


@settings(max_examples=times(2))
@given(seed=st.integers(0, 1 << 30), ends=st.tuples(st.integers(0, 2000), st.integers(0, 300)), knobs=KNOBS)
def test_any_slice_of_a_partition(seed: int, ends: tuple[int, int], knobs: dict[str, Any]) -> None:
    log = written(seed, 25)
    start, end = ends[0], ends[0] + ends[1]
    buffer, aborted, fetched_to = fetch(log, start, 1 << 20)
    done = run(buffer, position=start, end=end, aborted=aborted, skip_producer_ids=OPPOSITE, **knobs)
    assert copied(done) == sorted(row for row in log.visible if start <= row.offset < end)
    accounted(log, done, start, min(end, fetched_to))
    assert start <= done.next_source <= max(start, end)


@settings(max_examples=times(2))
@given(seed=st.integers(0, 1 << 30), stop=st.integers(0, 60), start=st.integers(0, 1100), knobs=KNOBS)
def test_after_any_part_the_rest_can_be_fetched_again(
    seed: int, stop: int, start: int, knobs: dict[str, Any]
) -> None:
    """A task that ends between two parts, also within a batch, leaves a position where the next begins."""
    log = written(seed, 25)
    buffer, aborted, _ = fetch(log, start, 1 << 20)
    more = {"skip_producer_ids": OPPOSITE, **knobs}
    done = parts(buffer, position=start, aborted=aborted, **more)[: stop + 1]
    first = [record for part in done for record in copied(part)]
    position = done[-1].next_source
    buffer, aborted, _ = fetch(log, position, 1 << 20)
    second = copied(run(buffer, position=position, aborted=aborted, **more))
    assert first + second == sorted(row for row in log.visible if row.offset >= start)


@settings(max_examples=times(1.5))
@given(seed=st.integers(0, 1 << 30), knobs=KNOBS, cut=st.integers(0, 10_000))
def test_what_was_copied_can_be_copied_on(seed: int, knobs: dict[str, Any], cut: int) -> None:
    """A chain A→B→C: what leaves the function, with offsets from a broker, is a log again."""
    log = written(seed, 20)
    buffer, aborted, _ = fetch(log, 0, 1 << 20)
    first = run(buffer, aborted=aborted, skip_producer_ids=OPPOSITE, **knobs)
    rows, base, stored = copied(first), 0, b""
    for chunk in first.chunks:
        data = bytes(chunk.data)
        tail = data[21:]
        stored += base.to_bytes(8, "big") + data[8:17] + _crc(tail) + tail
        base += chunk.count
    position = cut % (base + 1)
    second = run(stored, position=position, **knobs)
    expected = [row._replace(offset=number) for number, row in enumerate(rows)]
    assert copied(second) == expected[position:]
    assert second.next_source == base


def _crc(tail: bytes) -> bytes:
    value: int = google_crc32c.value(tail)
    return value.to_bytes(4, "big")
