"""A cursor and the map that is written beside it, in any order of appends, marks and transactions."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.target.bulk import Sent, intents_of
from drkit.model import SourceOffset
from drkit.offset_map.bucket import MapBucket
from drkit.offsets import MapRecord, Mark, PartitionMap, encode_map_record
from tests.support.copy_task.chunks import HISTORY, NONCE, chunk
from tests.support.examples import times


class Pair:
    """A partition, its map, and which records are where."""

    def __init__(self) -> None:
        self.partition = PartitionCopy(
            PartitionAssignment("t", str(UUID(int=1)), "t", str(UUID(int=2)), 0, 0)
        )
        self.topic: list[tuple[bytes, bytes]] = []
        self.said = PartitionMap()
        self.truth: dict[int, int] = {}
        self.source = self.end = 0
        self.flying: list[tuple[Mark, int]] = []
        self._begin()

    def _begin(self) -> None:
        open_end = self.said.segments.delta() if self.said.tail and self.said.tail.live else None
        self.partition.begin(
            upstream=self.source, downstream=self.end, copied_end=self.partition.acked_own_end,
            sequence=self.partition.sequence, delta=open_end, leader_epoch=1, history=HISTORY,
            live=self.partition.live,
        )  # fmt: skip

    def write(self, record: MapRecord) -> None:
        self.said.apply(record)
        self.topic.append(encode_map_record(self.partition.key, record))

    def live(self, hole: int, count: int) -> None:
        """Stage a chunk after a hole of the source; its intent is durable before it goes."""
        first = self.source + hole
        self.partition.take([chunk(first, count, 1)], first + count, 1)
        intent = self.partition.stage(0, NONCE, None)
        if intent is not None:
            self.write(intent)
        self._is_next(first, count)

    def _is_next(self, first: int, count: int) -> None:
        self.truth |= {first + i: self.end + i for i in range(count)}
        self.source, self.end = first + count, self.end + count

    def acknowledge(self) -> None:
        """The first of what is on its way."""
        if self.partition.ready:
            self.partition.acknowledge(self.partition.ready.popleft())

    def mark(self) -> None:
        """One more mark is on its way."""
        mark = self.partition.mark(NONCE)
        self.flying += [] if mark is None else [(mark, self.partition.generation)]

    def land(self) -> None:
        """The first of them is durable."""
        if self.flying:
            mark, generation = self.flying.pop(0)
            self.write(mark)
            self.partition.confirmed(mark, generation)

    def bulk(self, hole: int, count: int) -> None:
        """Old records in a transaction, as soon as nothing is on its way; then the target is asked again."""
        while self.partition.ready:
            self.acknowledge()
        partition, first, base = self.partition, self.source + hole, self.end
        partition.state = CopyState.BULK
        sent = Sent(partition, partition.generation, chunk(first, count, 1), None)
        for _, record in intents_of([(sent, base)], NONCE):
            self.write(record)
        partition.uncommitted += 1
        partition.committed(sent.chunk, base)
        self._is_next(first, count)
        self.end += 1  # its marker
        partition.void()
        self._begin()

    def cleaned(self) -> PartitionMap:
        """The map once the log cleaner has left the newest record of each key."""
        newest = {key: i for i, (key, _) in enumerate(self.topic)}
        bucket, p = MapBucket(0, "map"), self.partition
        for i, (key, value) in enumerate(self.topic):
            if newest[key] == i:
                bucket.apply(key, value, i)
        assert bucket.doubt(p.key) is None
        return bucket.of(p.source_id, p.target_id, p.target.partition)


_SIZES = st.tuples(st.integers(0, 2), st.integers(1, 4))
_STEPS = st.one_of(
    st.tuples(st.just("live"), _SIZES),
    st.tuples(st.just("bulk"), _SIZES),
    st.tuples(st.sampled_from(["acknowledge", "mark", "land"]), st.just(())),
)


@settings(max_examples=times(4))
@given(st.lists(_STEPS, max_size=40))
def test_whatever_comes_first_the_map_knows_every_record(steps: list[tuple[str, tuple[int, ...]]]) -> None:
    pair = Pair()
    for name, sizes in steps:
        getattr(pair, name)(*sizes)
    while pair.partition.ready:
        pair.acknowledge()
    pair.mark()
    while pair.flying:
        pair.land()
    for said in (pair.said, pair.cleaned()):
        for source, target in pair.truth.items():
            assert said.segments.translate(SourceOffset(source), pair.end) == target
