"""What the map claims, settled against a simulated log: the answer must be the log's truth."""

from __future__ import annotations

from dataclasses import dataclass, field
import random
from typing import NamedTuple
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


def epoch_of(upstream: int) -> int:
    """The source has another leader every nine offsets."""
    return upstream // 9


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    """Consecutive offsets as (first, how many)."""
    runs: list[tuple[int, int]] = []
    for u in offsets:
        if runs and sum(runs[-1]) == u:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((u, 1))
    return runs


class Staged(NamedTuple):
    """A batch on its way."""

    taken: list[int]
    down: int
    sequence: int
    crc: int
    epoch: int


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
        """One replicator: resolve, repair, then batches with intents, perhaps dying in between.

        Intents are durable before their batches, of which several are on their way at once.
        """
        rng, nonce = self.rng, self.rng.getrandbits(60)
        found = self.resolved()
        if found.repairs:
            self._repair(found, nonce)
        staged = self._staged(found, nonce)
        appends = sum(len(batches) for _, batches in staged)
        left, ahead = (rng.randint(0, appends) if crash else appends), rng.randint(0, 2)
        last: Staged | None = None
        for intent, batches in staged:
            if not left:
                ahead -= 1
            if intent is not None and ahead >= 0:
                self.topic.append(encode_intent(KEY, intent))
            for batch in batches[:left]:
                left, last = left - 1, batch
                self._append(batch)
        if last is not None and not (crash and rng.random() < 0.7):
            mark = Mark(nonce, last.taken[-1] + 1, self.end, self.end, self.sequence or 0, last.epoch)
            self.topic.append(encode_mark(KEY, mark))

    def _staged(self, found: Resolution, nonce: int) -> list[tuple[Intent | None, list[Staged]]]:
        """What a replicator would append, some batches at a time, each time with an intent if need be."""
        rng, position, epoch = self.rng, found.upstream or 0, found.leader_epoch
        whole = found.copied_end == found.downstream and bool(found.segments)
        delta = found.segments.delta() if whole else None
        sequence = found.sequence if self.sequence is not None else SEQUENCE_START
        down, previous = self.end, found.copied_end
        out: list[tuple[Intent | None, list[Staged]]] = []
        for _ in range(rng.randint(1, 3)):
            batches: list[Staged] = []
            first: tuple[int, int, int, int] | None = None
            for _ in range(rng.randint(1, 3)):
                taken = [u for u in self.source if u >= position][: rng.randint(1, 6)]
                if not taken:
                    break
                other = epoch != epoch_of(taken[-1]) or taken[0] - down != delta
                if first is None and (other or len(runs_of(taken)) > 1):
                    first = len(batches), sequence, down, previous
                crc, epoch = zlib.crc32(repr((taken, sequence, nonce)).encode()), epoch_of(taken[-1])
                batches.append(Staged(taken, down, sequence, crc, epoch))
                down = previous = down + len(taken)
                sequence = (sequence + len(taken)) % SEQUENCE_MODULUS
                position, delta = taken[-1] + 1, taken[-1] + 1 - down
            out.append((self._intent(first, batches, nonce) if first else None, batches))
        return out

    @staticmethod
    def _intent(first: tuple[int, int, int, int], batches: list[Staged], nonce: int) -> Intent:
        listed = batches[first[0] :]
        chunks = tuple((len(b.taken), b.crc) for b in listed)
        runs = tuple(runs_of([u for b in listed for u in b.taken]))
        return Intent(Mode.LIVE, nonce, OURS, 0, *first[1:], listed[-1].epoch, chunks, runs)

    def _append(self, batch: Staged) -> None:
        count = len(batch.taken)
        self.log.append(record_batch(batch.down, count, OURS, batch.sequence, batch.crc))
        self.truth += [(u, batch.down + i) for i, u in enumerate(batch.taken)]
        self.end, self.sequence = batch.down + count, (batch.sequence + count) % SEQUENCE_MODULUS

    def _repair(self, found: Resolution, nonce: int) -> None:
        total = sum(p.records for p in found.repairs)
        sequence = (found.sequence - total) % SEQUENCE_MODULUS
        previous = found.repair_from
        for up, down, count in found.repairs:
            epoch = found.leader_epoch
            intent = Intent(Mode.REPAIR, nonce, OURS, 0, sequence, down, previous, epoch, (), ((up, count),))
            self.topic.append(encode_intent(KEY, intent))
            sequence = (sequence + count) % SEQUENCE_MODULUS
            previous = down + count
        if found.foreign:
            place = found.upstream or 0, found.downstream, found.copied_end
            mark = Mark(nonce, *place, found.sequence, found.leader_epoch)
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
                # A source that is asked with an older epoch than that of the last record copied says that
                # its history ended there, and everything behind it would be copied again.
                assert found.leader_epoch >= epoch_of(self.truth[-1][0])


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
    place = found.upstream, found.downstream, found.copied_end
    mark = Mark(nonce, *place, found.sequence, found.leader_epoch)
    before = world.topic
    world.topic = [*before, *packs[:-1]]  # a crash in the middle of packing
    world.check()
    world.topic = [*before, *packs, encode_mark(KEY, mark)]
    world.check()
    world.topic = [*packs, encode_mark(KEY, mark)]  # the intents compacted away
    world.check()
    world.run(crash=False)
    world.check()
