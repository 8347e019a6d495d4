"""Several copy tasks at work on one partition at once, each stopped and resumed anywhere.

The broker is a model: it takes a batch only if its first sequence number is the next one. Everything else is
the product's own: intents, marks, repairs, and settling them against the log.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
import random
from typing import NamedTuple
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from drkit.model import SourceOffset
from drkit.offsets import Intent, Mark, PartitionMap
from drkit.offsets.map_record import SEQUENCE_MODULUS, MapRecord, Mode
from drkit.offsets.resolve import LogBatch, NeedLog, Resolution, resolve
from tests.offsets.test_resolve import OURS, record_batch, runs_of

SOURCE_OFFSETS = 120
SEQUENCE_START = SEQUENCE_MODULUS - 20


class Sent(NamedTuple):
    """A batch on its way: its predicted place, and what it holds."""

    sequence: int
    down: int
    taken: list[int]
    crc: int


@dataclass
class Partition:
    """The source's committed records, the target's log, and the map topic."""

    source: list[int]
    log: list[LogBatch] = field(default_factory=list)
    truth: list[tuple[int, int]] = field(default_factory=list)
    topic: list[MapRecord] = field(default_factory=list)
    end: int = 0
    sequence: int | None = None

    def append(self, batch: Sent) -> int | None:
        """The base offset, or None when the broker refuses the sequence number."""
        if self.sequence is not None and batch.sequence != self.sequence:
            return None
        base = self.end
        self.log.append(record_batch(base, len(batch.taken), OURS, batch.sequence, batch.crc))
        self.truth += [(u, base + i) for i, u in enumerate(batch.taken)]
        self.end += len(batch.taken)
        self.sequence = (batch.sequence + len(batch.taken)) % SEQUENCE_MODULUS
        return base

    def resolved(self) -> Resolution:
        """What a task that looks now believes: the log first, the map second."""
        own = frozenset({OURS})
        state = PartitionMap()
        for record in self.topic:
            state.apply(record)
        answer = resolve(state, end=self.end, next_sequence=self.sequence, own_ids=own)
        if isinstance(answer, NeedLog):
            log = [b for b in self.log if b.base + b.records > answer.start]
            answer = resolve(state, end=self.end, next_sequence=self.sequence, own_ids=own, log=log)
        assert isinstance(answer, Resolution)
        return answer

    def check(self) -> None:
        """Every source offset has its exact place, and no record stands twice."""
        copied = [u for u, _ in self.truth]
        assert copied == self.source[: len(copied)], "a record is missing, stands twice or out of order"
        if not copied:
            return
        found = self.resolved()
        end = self.truth[-1][1] + 1
        for upstream in range(SOURCE_OFFSETS + 1):
            expected = next((d for u, d in self.truth if u >= upstream), end)
            answer = found.segments.translate(SourceOffset(upstream), self.end)
            assert answer == expected, (upstream, found.segments.triples())


@dataclass
class Task:
    """A copy task: each method is one step, and between two steps anybody else may take some."""

    partition: Partition
    rng: random.Random
    found: bool = False
    nonce: int = 0
    position: int = 0
    down: int = 0
    previous: int = 0
    sequence: int = 0
    delta: int | None = None
    acked: tuple[int, int, int] | None = None
    pipeline: deque[Sent] = field(default_factory=deque)

    def step(self) -> None:
        """Whatever comes next, at random."""
        if not self.found:
            self.resolve()
        else:
            self.rng.choice([self.stage, self.send, self.send, self.mark])()

    def resolve(self) -> None:
        """Ask the log and the map where the partition stands; write down what only the log confirmed."""
        answer = self.partition.resolved()
        self.nonce, self.found, self.acked = self.rng.getrandbits(60), True, None
        self.pipeline.clear()
        total = sum(p.records for p in answer.repairs)
        sequence, previous = (answer.sequence - total) % SEQUENCE_MODULUS, answer.repair_from
        for up, down, count in answer.repairs:
            repair = Intent(Mode.REPAIR, self.nonce, OURS, 0, sequence, down, previous, 1, (), ((up, count),))
            self.partition.topic.append(repair)
            sequence, previous = (sequence + count) % SEQUENCE_MODULUS, down + count
        self.position, self.down = answer.upstream or 0, answer.downstream
        self.previous = answer.copied_end
        self.sequence = answer.sequence if self.partition.sequence is not None else SEQUENCE_START
        self.delta = answer.segments.delta() if answer.segments else None

    def stage(self) -> None:
        """Take some batches and say in one intent what stands where the offsets' distance changes."""
        batches: list[Sent] = []
        runs: list[tuple[int, int]] = []
        first: tuple[int, int, int] | None = None
        for _ in range(self.rng.randint(1, 3)):
            taken = [u for u in self.partition.source if u >= self.position][: self.rng.randint(1, 6)]
            if not taken:
                break
            parts = runs_of(taken)
            if first is None and (len(parts) > 1 or taken[0] - self.down != self.delta):
                first = (self.sequence, self.down, self.previous)
            if first is not None:
                runs = runs_of([u for up, n in runs for u in range(up, up + n)] + taken)
            crc = zlib.crc32(repr((taken, self.nonce)).encode())
            batches.append(Sent(self.sequence, self.down, taken, crc))
            self.sequence = (self.sequence + len(taken)) % SEQUENCE_MODULUS
            self.down += len(taken)
            self.position, self.previous = taken[-1] + 1, self.down
            self.delta = self.position - self.down
        if first is not None:
            intent = Intent(Mode.LIVE, self.nonce, OURS, 0, *first, 1, (), tuple(runs))
            self.partition.topic.append(intent)
        self.pipeline += batches

    def send(self) -> None:
        """The oldest batch goes; the rest is on its way already when an answer is not the predicted one."""
        if not self.pipeline:
            return
        batch = self.pipeline.popleft()
        base = self.partition.append(batch)
        if base == batch.down:
            end = batch.down + len(batch.taken)
            sequence = (batch.sequence + len(batch.taken)) % SEQUENCE_MODULUS
            self.acked = (batch.taken[-1] + 1, end, sequence)
            return
        for late in self.pipeline:
            self.partition.append(late)
        self.found = False

    def mark(self) -> None:
        """State what is acknowledged, wherever in an intent that is."""
        if self.acked is not None:
            up, down, sequence = self.acked
            self.partition.topic.append(Mark(self.nonce, up, down, down, sequence, 1))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(10, 120))
def test_tasks_that_run_at_once_leave_an_exact_map(seed: int, tasks: int, steps: int) -> None:
    rng = random.Random(seed)
    partition = Partition(sorted(rng.sample(range(SOURCE_OFFSETS), 80)))
    crowd = [Task(partition, rng) for _ in range(tasks)]
    for _ in range(steps):
        rng.choice(crowd).step()
        partition.check()


def test_a_mark_in_the_middle_of_an_intent_leaves_its_rest_a_claim() -> None:
    state = PartitionMap()
    state.apply(Intent(Mode.LIVE, 7, OURS, 0, 100, 100, 0, 0, (), ((200, 5), (210, 5))))
    state.apply(Mark(7, 203, 103, 103, 103, 0))
    found = resolve(state, end=108, next_sequence=108, own_ids=frozenset({OURS}))
    assert isinstance(found, Resolution)
    assert (found.segments.segments(), found.upstream) == ([(200, 100), (210, 105)], 213)
