"""A cursor and the map that is written beside it, in any order of appends, marks and transactions."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from drkit.model import SourceOffset
from drkit.offsets import Intent, Mark
from drkit.offsets.map_record import Mode
from drkit.offsets.partition_map import PartitionMap
from drkit.replicate.lease import PartitionLease
from drkit.replicate.partition import PartitionCopy, State
from tests.replicate.test_partition_cursor import NONCE, PRODUCER, chunk, confirm


class Pair:
    """A partition, its map, and what really stands where."""

    def __init__(self) -> None:
        self.partition = PartitionCopy(PartitionLease("t", str(UUID(int=1)), "t", str(UUID(int=2)), 0, 0))
        self.said = PartitionMap()
        self.truth: dict[int, int] = {}
        self.source = self.end = 0
        self.flying: list[Mark] = []
        self._begin()

    def _begin(self) -> None:
        open_end = self.said.segments.delta() if self.said.tail and self.said.tail.live else None
        self.partition.begin(
            upstream=self.source, downstream=self.end, copied_end=self.end,
            sequence=self.partition.sequence, delta=open_end, leader_epoch=1,
        )  # fmt: skip

    def live(self, hole: int, count: int) -> None:
        """Stage a chunk behind a hole of the source; its intent is durable before it goes."""
        first = self.source + hole
        self.partition.take([chunk(first, count, 1)], first + count, 1)
        intent = self.partition.stage(PRODUCER, 0, NONCE, None)
        if intent is not None:
            self.said.apply(intent)
        self._stands(first, count)

    def _stands(self, first: int, count: int) -> None:
        self.truth |= {first + i: self.end + i for i in range(count)}
        self.source, self.end = first + count, self.end + count

    def acknowledge(self) -> None:
        """The first of what is on its way."""
        if self.partition.ready:
            self.partition.acknowledge(self.partition.ready.popleft())

    def mark(self) -> None:
        """One more mark is on its way."""
        mark = self.partition.mark(NONCE)
        self.flying += [] if mark is None else [mark]

    def land(self) -> None:
        """The first of them is durable."""
        if self.flying:
            mark = self.flying.pop(0)
            self.said.apply(mark)
            self.partition.confirmed(mark, NONCE)

    def bulk(self, hole: int, count: int) -> None:
        """Old records in a transaction, as soon as nothing is on its way; then the target is asked again."""
        while self.partition.ready:
            self.acknowledge()
        self.partition.state = State.BULK
        if self.partition.unmarked:
            confirm(self.partition, self.said)
            assert not self.partition.unmarked
        first, down = self.source + hole, self.end
        previous = self.partition.acked_own_end
        self._stands(first, count)
        self.said.apply(Intent(Mode.BULK, NONCE, 9, 0, 0, down, previous, 1, (), ((first, count),)))
        self.end += 1  # its marker
        self._begin()


_SIZES = st.tuples(st.integers(0, 2), st.integers(1, 4))
_STEPS = st.one_of(
    st.tuples(st.just("live"), _SIZES),
    st.tuples(st.just("bulk"), _SIZES),
    st.tuples(st.sampled_from(["acknowledge", "mark", "land"]), st.just(())),
)


@settings(max_examples=400)
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
    for source, target in pair.truth.items():
        assert pair.said.segments.translate(SourceOffset(source), pair.end) == target
