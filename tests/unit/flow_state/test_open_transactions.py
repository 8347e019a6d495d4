"""Whatever is open when a reader reads, all readers of a log agree, and no copy of a record counts.

The log is a list of batches, served as a leader serves them: up to the last stable offset with the aborted
transactions, or up to the end.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from drkit.config import ClusterSettings
from drkit.control_key import LogPlace, Signatures
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.compacted import NewestValues
from drkit.kafka.reading.log_tail import LogEnds, LogTail
from drkit.wire import Record
from tests.support.flow_state.keys import KEYS, PLACE, signatures
from tests.support.wire.forge import ABORT, COMMIT, Batch, log, marker

T = TypeVar("T")
OUTSIDE = -1
STRANGER, OURS, THEIRS = 1, 2, 3
"""Producers of transactions; the last two have the control key."""
_TRANSACTIONAL = 0x10


@dataclass
class Log:
    """One partition, and who has a transaction open on it."""

    batches: list[Batch] = field(default_factory=list)
    first_of: dict[int, int] = field(default_factory=dict)
    """Producer → first offset of its open transaction."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """First offset, offset of the marker, and producer of each."""
    committed: set[int] = field(default_factory=set)
    """Offsets of records that no open or aborted transaction has."""
    of: dict[int, list[int]] = field(default_factory=dict)
    """Producer → offsets of its open transaction."""
    writers: tuple[Signatures, Signatures] = field(default_factory=lambda: (signatures(), signatures()))
    """The second one signs orders that the first one has passed: it reads nothing."""

    @property
    def end(self) -> int:
        return len(self.batches)

    @property
    def stable(self) -> int:
        return min(self.first_of.values(), default=self.end)

    def write(
        self, key: bytes, value: bytes | None, producer: int = OUTSIDE, *, slow: bool = False
    ) -> Record:
        """Write a record with a MAC."""
        record = Record(0, 1_000, key, value, self.writers[slow].headers(key, value))
        self.copy(record, producer)
        return record

    def copy(self, record: Record, producer: int = OUTSIDE) -> None:
        """Write a record with its headers."""
        at = self.end
        transactional = {"producer_id": producer, "attributes": _TRANSACTIONAL} if producer > 0 else {}
        self.batches.append(Batch(at, (record._replace(offset=at),), **transactional))
        if producer > 0:
            self.first_of.setdefault(producer, at)
            self.of.setdefault(producer, []).append(at)
        else:
            self.committed.add(at)

    def finish(self, producer: int, *, commit: bool) -> None:
        """End a producer's transaction."""
        first, offsets = self.first_of.pop(producer), self.of.pop(producer)
        if commit:
            self.committed.update(offsets)
        else:
            self.aborted.append((first, self.end, producer))
        self.batches.append(marker(self.end, producer, COMMIT if commit else ABORT))

    def answer(self, offset: int, *, committed: bool, most: int = 3) -> Any:
        """Return at most some batches, as a leader does."""
        until = min(offset + most, self.stable if committed else self.end)
        return SimpleNamespace(
            records=log(*self.batches[offset:until]),
            aborted_transactions=[
                SimpleNamespace(producer_id=producer, first_offset=first)
                for first, last, producer in self.aborted
                if first < until and last >= offset
            ]
            if committed
            else None,
            last_stable_offset=self.stable,
            high_watermark=self.end,
        )

    def expected(self) -> dict[bytes, bytes]:
        """Return the value of each key by the order of the log alone: each MAC and order counts once."""
        newest, values = dict[bytes, tuple[bytes, bytes]](), dict[bytes, bytes]()
        for record in (r for b in self.batches if not b.attributes & 0x20 for r in b.records):
            if not record.headers or record.key is None:
                continue
            mac = record.headers[0][1] or b""
            if (mac[5:13], mac) <= newest.get(record.key, (b"", b"")):
                continue
            newest[record.key] = mac[5:13], mac
            if record.offset in self.committed:
                values.pop(record.key, None)
                if record.value is not None:
                    values[record.key] = record.value
        return values


class Reader(LogTail):
    """Reads such a log as it is now."""

    def __init__(self, served: Log, *, in_order: bool = False) -> None:
        signed = signatures()
        self.values, self.served = NewestValues(signed), served
        settings = ClusterSettings(alias="b", bootstrap_servers="127.0.0.1:1").with_control(KEYS)
        super().__init__(
            settings, PLACE.at, self.values.take, self.values.pass_over, signatures=signed, in_order=in_order
        )
        signed.place = LogPlace(PLACE.at, "cluster-b", UUID(int=7))

    async def _fetch(
        self,
        cluster: RawCluster,  # noqa: ARG002  as of a reader
        node: int,  # noqa: ARG002  as of LogTail
        offset: int,
        *,
        committed: bool,
        wait_ms: int = 0,  # noqa: ARG002  as of LogTail
    ) -> Any:
        return self.served.answer(offset, committed=committed)

    async def _ends(self, cluster: RawCluster) -> tuple[int, LogEnds]:  # noqa: ARG002  as of a reader
        return 0, LogEnds(self.served.end, self.served.stable)

    def read_to_end(self) -> dict[bytes, bytes]:
        """Return the values, once all that the log has is read."""
        nowhere: Any = None
        while not _done(self._look(nowhere, 0, 0)):
            pass
        return dict(self.values)


def _done(step: Coroutine[Any, Any, T]) -> T:
    try:
        step.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    raise AssertionError("it waits")


def test_a_copy_of_an_aborted_record_does_not_count_while_another_transaction_is_open():
    served = Log()
    running = Reader(served)
    served.write(b"pause", b"now")
    served.copy(Record(0, 0, b"x", b"zzz"), STRANGER)
    running.read_to_end()
    resumed = served.write(b"pause", None, OURS)
    served.finish(OURS, commit=False)
    served.copy(resumed)
    assert running.read_to_end() == Reader(served).read_to_end() == {b"pause": b"now"}
    served.finish(STRANGER, commit=False)
    assert running.read_to_end() == Reader(served).read_to_end() == {b"pause": b"now"}


def test_a_copy_that_is_written_while_the_transaction_is_open_does_not_count():
    served = Log()
    running = Reader(served)
    served.write(b"pause", b"now")
    resumed = served.write(b"pause", None, OURS)
    running.read_to_end()
    served.copy(resumed)
    assert running.read_to_end() == Reader(served).read_to_end() == {b"pause": b"now"}
    served.finish(OURS, commit=False)
    assert running.read_to_end() == Reader(served).read_to_end() == {b"pause": b"now"}


def test_a_record_counts_when_its_transaction_is_committed_after_its_copy_was_read():
    served = Log()
    running = Reader(served)
    served.copy(Record(0, 0, b"x", b"zzz"), STRANGER)
    claim = served.write(b"claim", b"o1", OURS)
    served.copy(claim)
    assert running.read_to_end() == {}
    assert [r.offset for r in running.undecided if r.key == b"claim"] == [1]
    served.finish(OURS, commit=True)
    assert running.read_to_end() == Reader(served).read_to_end() == {b"claim": b"o1"}
    assert running.undecided == []


def test_a_reader_in_order_stops_before_a_transaction_and_says_so():
    """`drkit control adopt` reads the offset map in the order of its records."""
    served = Log()
    nowhere: Any = None
    served.write(b"k", b"first")
    served.copy(Record(0, 0, b"x", b"zzz"), STRANGER)
    aborted = served.write(b"k", b"aborted", OURS)
    served.finish(OURS, commit=False)
    served.copy(aborted)
    reader = Reader(served, in_order=True)
    assert _done(reader.to_end(nowhere)) == LogEnds(5, 1)
    assert reader.values == {b"k": b"first"}
    served.finish(STRANGER, commit=True)
    served.write(b"l", b"last")
    assert _done(reader.to_end(nowhere)) == LogEnds(7, 7)
    assert reader.values == {b"k": b"first", b"l": b"last"}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([b"k", b"l"]), st.sampled_from([OUTSIDE, OURS, THEIRS])),
        st.tuples(st.just("slow"), st.sampled_from([b"k", b"l"]), st.sampled_from([OUTSIDE, OURS])),
        st.tuples(st.just("delete"), st.sampled_from([b"k", b"l"]), st.sampled_from([OUTSIDE, OURS])),
        st.tuples(st.just("copy"), st.integers(0, 40), st.sampled_from([OUTSIDE, STRANGER])),
        st.tuples(st.just("junk"), st.just(0), st.sampled_from([OUTSIDE, STRANGER])),
        st.tuples(st.just("finish"), st.sampled_from([STRANGER, OURS, THEIRS]), st.booleans()),
        st.tuples(st.just("read"), st.integers(0, 3), st.just(0)),
    ),
    min_size=4,
    max_size=40,
)


@given(STEPS)
def test_all_readers_agree_whenever_they_began(steps: list[tuple[str, Any, Any]]):
    served, readers, written = Log(), list[Reader](), list[Record]()
    for number, (what, one, two) in enumerate(steps):
        if what in {"write", "slow", "delete"}:
            value = None if what == "delete" else b"%d" % number
            written.append(served.write(one, value, two, slow=what == "slow"))
        elif what == "copy" and written:
            served.copy(written[one % len(written)], two)
        elif what == "junk":
            served.copy(Record(0, 0, b"k", b"junk"), two)
        elif what == "finish" and one in served.first_of:
            served.finish(one, commit=two)
        elif what == "read":
            if one >= len(readers):
                readers.append(Reader(served))
            readers[min(one, len(readers) - 1)].read_to_end()
    for producer in list(served.first_of):
        served.finish(producer, commit=producer == OURS)
    for reader in (*readers, Reader(served)):
        assert reader.read_to_end() == served.expected()
        assert reader.undecided == []
        assert reader._signatures is not None
        assert reader._signatures._reserved == {}
