"""What the map claims, settled against a simulated log: the answer must be the log's truth."""

from __future__ import annotations

from dataclasses import dataclass, field
import random
from uuid import UUID
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from drkit.model import SourceOffset
from drkit.offsets import (
    Intent,
    MapKey,
    Mark,
    Pack,
    PartitionMap,
    decode_record,
    encode_intent,
    encode_map_record,
    encode_mark,
)
from drkit.offsets.map_record import SEQUENCE_MODULUS, Mode
from drkit.offsets.resolve import LogBatch, NeedLog, Resolution, resolve

KEY = MapKey(UUID(int=1), UUID(int=2), 0)
OURS, FOREIGN, BULK = 77, 99, 55
SEQUENCE_START = SEQUENCE_MODULUS - 7  # every history wraps around


def record_batch(base: int, records: int, producer_id: int, sequence: int, crc: int) -> LogBatch:
    """A batch of ordinary records in the target's log."""
    kind = {"transactional": False, "control": False, "aborted": False}
    return LogBatch(base, records, producer_id, sequence, crc, **kind)


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    """Consecutive offsets as (first, how many)."""
    runs: list[tuple[int, int]] = []
    for u in offsets:
        if runs and sum(runs[-1]) == u:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((u, 1))
    return runs


@dataclass
class World:
    """A source with holes, a target log and the map topic, written by crashing replicators."""

    rng: random.Random
    source: list[int]
    log: list[LogBatch] = field(default_factory=list)
    truth: list[tuple[int, int]] = field(default_factory=list)
    topic: list[tuple[bytes, bytes]] = field(default_factory=list)
    end: int = 0
    sequence: int | None = None
    foreign: int = 0

    def state(self) -> PartitionMap:
        state = PartitionMap()
        for key, value in self.topic:
            found = decode_record(key, value)
            assert found is not None
            state.apply(found[1])
        return state

    def resolved(self, *, forgotten: bool = False) -> Resolution:
        sequence = None if forgotten else self.sequence
        own = frozenset({OURS})
        answer = resolve(self.state(), end=self.end, next_sequence=sequence, own_ids=own)
        if isinstance(answer, NeedLog):
            log = [b for b in self.log if b.base + b.records > answer.start]
            answer = resolve(self.state(), end=self.end, next_sequence=sequence, own_ids=own, log=log)
        assert isinstance(answer, Resolution)
        return answer

    def foreign_write(self) -> None:
        self.log.append(record_batch(self.end, 2, FOREIGN, 0, 0))
        self.end += 2
        self.foreign += 2

    def run(self, *, crash: bool) -> None:
        """One replicator: resolve, repair, then batches with intents, perhaps dying in between."""
        rng, nonce = self.rng, self.rng.getrandbits(60)
        found = self.resolved()
        if found.repairs:
            self._repair(found, nonce)
        position, delta = found.upstream or 0, found.segments.delta()
        if found.copied_end != found.downstream or not found.segments:
            delta = None
        sequence = found.sequence if self.sequence is not None else SEQUENCE_START
        down, previous, acked = self.end, found.copied_end, None
        for _ in range(rng.randint(1, 5)):
            take = [u for u in self.source if u >= position][: rng.randint(1, 6)]
            if not take:
                break
            runs = runs_of(take)
            crc = zlib.crc32(repr((take, sequence, nonce)).encode())
            if len(runs) > 1 or take[0] - down != delta:
                intent = Intent(
                    Mode.LIVE, nonce, OURS, 0, sequence, down, previous, 1, ((len(take), crc),), tuple(runs)
                )
                self.topic.append(encode_intent(KEY, intent))
            if crash and rng.random() < 0.3:
                return
            self.log.append(record_batch(down, len(take), OURS, sequence, crc))
            self.truth += [(u, down + i) for i, u in enumerate(take)]
            down = previous = down + len(take)
            sequence = (sequence + len(take)) % SEQUENCE_MODULUS
            self.end, self.sequence = down, sequence
            position, delta = take[-1] + 1, take[-1] + 1 - down
            acked = (position, down, sequence)
            if crash and rng.random() < 0.2:
                return
        if acked is not None:
            self.topic.append(encode_mark(KEY, Mark(nonce, acked[0], acked[1], acked[1], acked[2], 1)))

    def _repair(self, found: Resolution, nonce: int) -> None:
        total = sum(p.records for p in found.repairs)
        sequence = (found.sequence - total) % SEQUENCE_MODULUS
        previous = found.repair_from
        for up, down, count in found.repairs:
            intent = Intent(Mode.REPAIR, nonce, OURS, 0, sequence, down, previous, 1, (), ((up, count),))
            self.topic.append(encode_intent(KEY, intent))
            sequence = (sequence + count) % SEQUENCE_MODULUS
            previous = down + count
        if found.foreign:
            mark = Mark(nonce, found.upstream or 0, found.downstream, found.copied_end, found.sequence, 1)
            self.topic.append(encode_mark(KEY, mark))

    def check(self) -> None:
        for forgotten in (False, True):
            found = self.resolved(forgotten=forgotten)
            for upstream in range(max(self.source) + 2):
                expected = next((d for u, d in self.truth if u >= upstream), None)
                if not self.truth:
                    continue
                answer = found.segments.translate(SourceOffset(upstream), self.end)
                last = self.truth[-1][1] + 1
                assert answer == (last if expected is None else expected), (
                    upstream,
                    found.segments.segments(),
                )
            if self.truth:
                assert found.upstream is not None
                assert [u for u in self.source if u < found.upstream] == [u for u, _ in self.truth]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_crashing_replicators_and_foreign_writers_leave_an_exact_map(seed: int, runs: int) -> None:
    rng = random.Random(seed)
    world = World(rng, sorted(rng.sample(range(60), 35)))
    for _ in range(runs):
        world.run(crash=True)
        if rng.random() < 0.3:
            world.foreign_write()
        world.check()
    world.run(crash=False)
    world.check()
    copied = [u for u, _ in world.truth]
    assert copied == sorted(set(copied)), "a record stands twice or out of order"


def test_of_two_writers_with_one_place_the_log_decides() -> None:
    state = PartitionMap()
    a = Intent(Mode.LIVE, 1, OURS, 0, 0, 0, 0, 1, ((2, 111), (2, 112)), ((0, 4),))
    b = Intent(Mode.LIVE, 2, OURS, 0, 0, 0, 0, 1, ((2, 222), (2, 223)), ((0, 1), (2, 3)))
    for intent in (a, b):
        state.apply(intent)
    log = [
        record_batch(0, 2, OURS, 0, 111),
        record_batch(2, 2, OURS, 2, 112),
    ]
    assert isinstance(resolve(state, end=4, next_sequence=4, own_ids=frozenset({OURS})), NeedLog)
    found = resolve(state, end=4, next_sequence=4, own_ids=frozenset({OURS}), log=log)
    assert isinstance(found, Resolution)
    assert (found.segments.segments(), found.upstream) == ([(0, 0)], 4)


def test_a_bulk_record_is_true_without_the_log_and_its_marker_is_no_foreign_record() -> None:
    state = PartitionMap()
    state.apply(Intent(Mode.BULK, 1, BULK, 3, 0, 0, 0, 1, (), ((10, 5), (20, 5))))
    marker = LogBatch(10, 1, BULK, -1, 0, transactional=True, control=True, aborted=False)
    need = resolve(state, end=11, next_sequence=None, own_ids=frozenset({OURS}))
    assert isinstance(need, NeedLog)
    assert need.start == 10
    found = resolve(state, end=11, next_sequence=None, own_ids=frozenset({OURS}), log=[marker])
    assert isinstance(found, Resolution)
    assert (found.upstream, found.downstream, found.foreign) == (25, 11, [])
    assert found.segments.delta() is None


def test_a_zombies_late_intent_below_the_mark_is_not_believed() -> None:
    state = PartitionMap()
    state.apply(Intent(Mode.LIVE, 1, OURS, 0, 0, 0, 0, 1, (), ((0, 5),)))
    state.apply(Mark(1, 5, 5, 5, 5, 1))
    state.apply(Intent(Mode.LIVE, 2, OURS, 0, 3, 3, 3, 1, (), ((40, 5),)))
    found = resolve(state, end=5, next_sequence=5, own_ids=frozenset({OURS}))
    assert isinstance(found, Resolution)
    assert found.segments.segments() == [(0, 0)]


def test_a_target_that_lost_acknowledged_records_is_named() -> None:
    state = PartitionMap()
    state.apply(Intent(Mode.LIVE, 1, OURS, 0, 0, 0, 0, 1, (), ((100, 50),)))
    state.apply(Mark(1, 150, 50, 50, 50, 1))
    found = resolve(state, end=30, next_sequence=30, own_ids=frozenset({OURS}))
    assert isinstance(found, Resolution)
    assert (found.truncated_from, found.upstream, found.sequence) == (50, 130, 30)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3))
def test_a_pack_says_what_the_intents_said_and_they_can_go(seed: int, runs: int, part_size: int) -> None:
    rng = random.Random(seed)
    world = World(rng, sorted(rng.sample(range(60), 35)))
    for _ in range(runs):
        world.run(crash=True)
    found = world.resolved()
    if found.upstream is None:
        return
    starts = range(0, len(found.segments), part_size)
    pieces = [found.segments.part(i, i + part_size) for i in starts]
    nonce = rng.getrandbits(60)
    packs = [
        encode_map_record(KEY, Pack(nonce, i, len(pieces), found.downstream, piece))
        for i, piece in enumerate(pieces)
    ]
    mark = Mark(nonce, found.upstream, found.downstream, found.copied_end, found.sequence, 1)
    before = world.topic
    world.topic = [*before, *packs[:-1]]  # a crash in the middle of packing
    world.check()
    world.topic = [*before, *packs, encode_mark(KEY, mark)]
    world.check()
    world.topic = [*packs, encode_mark(KEY, mark)]  # the intents compacted away
    world.check()
    world.run(crash=False)
    world.check()
