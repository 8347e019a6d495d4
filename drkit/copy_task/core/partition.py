"""One partition being copied: its cursor and its state, without any input or output.

The cursor is three numbers that move together: the next source offset, the target offset the next
record will get, and the sequence number it will carry. They are predicted when a chunk is staged and
hold when its append is acknowledged with the predicted offset; anything else means resolve again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.min_max_mean import MinMaxMean
from drkit.model import TopicPartition
from drkit.offsets import History, Intent, MapKey, Mark
from drkit.offsets.map_record import NO_HISTORY, SEQUENCE_MODULUS, Mode
from drkit.wire import Chunk, Returned, stamp


class CopyState(Enum):
    """The copy mode of a partition."""

    RESOLVING = "resolving"
    """The target is asked for the partition's position."""
    LIVE = "live"
    """Appended with the sequence number as the cursor."""
    BULK = "bulk"
    """Appended in transactions, because its records are old."""
    STOPPED = "stopped"
    """Not copied until an operator clears the reason."""


class Staged(NamedTuple):
    """A batch that may be sent, with the target offset that it must get."""

    chunk: Chunk
    base: int
    sequence_end: int
    barrier: Any
    """Future of the intent that must be durable first, or None."""


def extend_runs(runs: list[tuple[int, int]], chunk: Chunk) -> None:
    """Add a chunk's runs to (first source offset, records) pairs, joining what is consecutive."""
    for run in chunk.runs:
        if runs and runs[-1][0] + runs[-1][1] == run.source:
            runs[-1] = (runs[-1][0], runs[-1][1] + run.count)
        else:
            runs.append((run.source, run.count))


@dataclass(slots=True, eq=False)
class PartitionCopy:
    """State of one leased partition within a copy task. Offsets are in records, sizes in bytes."""

    lease: PartitionAssignment
    key: MapKey = field(init=False)
    target: TopicPartition = field(init=False)
    source: TopicPartition = field(init=False)
    source_id: UUID = field(init=False)
    target_id: UUID = field(init=False)
    state: CopyState = CopyState.RESOLVING
    reason: str = ""
    generation: int = 0
    """Raised whenever fetched data becomes void."""
    leader: int = -1
    leader_epoch: int = -1
    target_leader: int = -1
    fetch_position: int = -1
    fetched_epoch: int = -1
    waiting: deque[Chunk] = field(default_factory=deque)
    ready: deque[Staged] = field(default_factory=deque)
    queued_bytes: int = 0
    in_flight: int = 0
    claiming: int = 0
    """Claims that are being written to the map."""
    uncommitted: int = 0
    """Chunks in an open transaction of bulk mode."""
    listed: bool = False
    attempts: int = 0
    retry_at: float = 0.0
    downstream: int = 0
    sequence: int = 0
    delta: int | None = None
    returned: Returned | None = None
    """A batch that stops the partition once all before it is copied."""
    kept: tuple[int, frozenset[int]] = field(init=False)
    """A source offset of the lease, and the producer ids whose earlier batches are on the target already."""
    acked_upstream: int = 0
    acked_copied_end: int = 0
    acked_downstream: int = 0
    own_end: int = 0
    """Target offset after the last staged record of this flow; foreign ones may follow."""
    acked_own_end: int = 0
    acked_sequence: int = 0
    acked_epoch: int = -1
    """The source's leader epoch of the record before `acked_upstream`."""
    staged_epoch: int = -1
    """Of the last batch staged; where another begins is an intent: the map must know it (KIP-320)."""
    rewind_to: tuple[int, int, int] | None = None
    """Where the source's history ends now, its leader epoch (−1: unknown), and the epoch asked for."""
    skip_to: int = -1
    """Where the source begins now, after a gap: copying continues there."""
    history: History = NO_HISTORY
    """Producer id and epoch with which this task appends in live mode."""
    inherited: bool = False
    """Appends of earlier tasks in this history may still be in flight, or claims of it are not appended."""
    lost: bool = False
    """An append or a claim of this task in this history was not answered: it may still arrive."""
    named_loss: int | None = None
    """Target offset from which records were lost, once this task has reported it."""
    deviation: str = ""
    """Why this task's next records may differ from in-flight ones: the history must end first."""
    target_epoch: int = -1
    """Leader epoch of the target partition when it was settled."""
    alone: bool = False
    """The target's leader does not know this history's producer: it would take any sequence number, so one
    append at a time goes out until it has answered."""
    live: bool = False
    """The last acknowledged record was appended in live mode, in `history`."""
    marked: tuple[int, int] = (-1, -1)
    """Source and target offset of the newest durable mark."""
    claims: int = 0
    """Claims of this task so far."""
    records: int = 0
    bytes: int = 0
    batches: int = 0
    age_ms: MinMaxMean = field(default_factory=MinMaxMean)
    """How old batches were when they were fetched, by their newest records."""
    latency_ms: MinMaxMean = field(default_factory=MinMaxMean)
    """How old batches were when they were on the target."""

    def __post_init__(self) -> None:
        lease = self.lease
        self.source_id, self.target_id = lease.source_id, lease.target_id
        self.key = MapKey(self.source_id, self.target_id, lease.partition)
        self.source = TopicPartition(lease.source_topic, lease.partition)
        self.target = TopicPartition(lease.target_topic, lease.partition)
        self.kept = lease.kept_to or 0, frozenset(lease.kept_ids)

    @property
    def exhausted(self) -> bool:
        """Return whether everything before the end offset, if any, has been fetched."""
        return self.lease.end is not None and self.fetch_position >= self.lease.end

    @property
    def settled(self) -> bool:
        """Nothing is queued, staged, in flight, or in a transaction that is not committed."""
        return not self.waiting and not self.ready and self.in_flight == 0 and self.uncommitted == 0

    @property
    def done(self) -> bool:
        """This epoch has no more to do here."""
        return self.state is CopyState.STOPPED or (
            self.state is not CopyState.RESOLVING and self.exhausted and self.settled
        )

    @property
    def wants_more(self) -> bool:
        """Return whether more may be fetched, ignoring queue limits."""
        # By identity: hashing an enum member dominates a fetch over many partitions.
        copies = self.state is CopyState.LIVE or self.state is CopyState.BULK
        return copies and not self.exhausted and self.returned is None

    def take(self, chunks: list[Chunk], next_source: int, leader_epoch: int) -> None:
        """Queue fetched chunks."""
        for chunk in chunks:
            self.waiting.append(chunk)
            self.queued_bytes += len(chunk.data)
        self.fetch_position = next_source
        self.fetched_epoch = max(self.fetched_epoch, leader_epoch)  # lower only by a rewind
        if self.settled:  # only dropped batches: the frontier moves without an append
            self._advance_frontier(next_source)

    def pass_gap(self, to: int) -> bool:
        """Continue after the records that the source has removed; False: the history must end first.

        :param to: where the source begins now
        """
        if self.contested:
            self.skip_to = to
            return False
        # With the leader epoch before the gap the source would answer with a diverging epoch.
        self.fetch_position, self.fetched_epoch = to, -1
        if self.settled:
            self._advance_frontier(to)
        return True

    def let_go(self) -> None:
        """Drop fetched chunks that are not staged: the frontier must not pass them."""
        if self.waiting:
            self.fetch_position = self.waiting[0].runs[0].source
            self.waiting.clear()

    def void(self) -> None:
        """Discard everything fetched and staged; the position must be read from the target again."""
        self.generation += 1
        self.waiting.clear()
        self.ready.clear()
        self.queued_bytes = 0
        self.uncommitted = 0
        self.returned = None
        self.state = CopyState.RESOLVING

    @property
    def answered(self) -> bool:
        """No append and no claim waits for its answer: settling then sees all of them."""
        return self.in_flight == 0 and self.claiming == 0

    def unanswered(self) -> None:
        """An append or a claim of this task got no answer: it may still arrive, however late."""
        self.lost = True

    def rewind(self, end: int, epoch: int) -> None:
        """The source's history is shorter than what was copied; to be called once the partition is void.

        :param end: where the source's history ends now
        :param epoch: its leader epoch there, −1 if unknown
        """
        self.rewind_to = (end, epoch, self.fetched_epoch)

    def stop(self, reason: str) -> None:
        """Leave the partition alone."""
        self.void()
        self.state = CopyState.STOPPED
        self.reason = reason

    def begin(
        self,
        *,
        upstream: int,
        downstream: int,
        copied_end: int,
        sequence: int,
        delta: int | None,
        leader_epoch: int,
        history: History = NO_HISTORY,
        inherited: bool = False,
        target_epoch: int = -1,
        live: bool = False,
        alone: bool = False,
    ) -> None:
        """Continue from a settled position, keeping fetched records that still fit."""
        self.history, self.inherited, self.target_epoch = history, inherited, target_epoch
        self.deviation, self.skip_to, self.rewind_to = "", -1, None
        self.live, self.alone = live, alone
        keep = bool(self.waiting) and self.acked_copied_end == upstream
        if not keep:
            self.waiting.clear()
            self.queued_bytes = 0
            self.fetch_position = upstream
            self.fetched_epoch = leader_epoch
            self.acked_upstream = upstream
        self.ready.clear()
        self.acked_copied_end = upstream
        self.downstream = self.acked_downstream = downstream
        self.own_end = self.acked_own_end = copied_end
        self.sequence = self.acked_sequence = sequence
        self.acked_epoch = self.staged_epoch = leader_epoch
        self.delta = delta
        self.marked = (-1, -1)
        self.attempts = 0
        self.state = CopyState.LIVE

    def oldest_is_older_than(self, floor_ms: int) -> bool:
        """The first waiting chunk is older than a wall-clock time in ms."""
        return bool(self.waiting) and self.waiting[0].max_timestamp < floor_ms

    def stage(self, floor_ms: int, nonce: int, barrier: Any) -> Intent | None:
        """Stamp waiting chunks for live mode and predict their target offsets.

        Chunks older than `floor_ms` stay waiting, and all of them where the history must end first. The
        intent that comes back must be durable before the staged batches that carry `barrier` are sent.
        """
        runs: list[tuple[int, int]] = []
        first_position: tuple[int, int, int] | None = None
        while self.waiting and self.waiting[0].max_timestamp >= floor_ms:
            if self._deviates(self.waiting[0]):
                self.deviation = "the source has another leader, and may have lost what its last one wrote"
                break
            chunk = self.waiting.popleft()
            stamp(chunk.data, *self.history, self.sequence, transactional=False)
            if first_position is None and self._needs_intent(chunk):
                first_position = (self.sequence, self.downstream, self.own_end)
            if first_position is not None:
                extend_runs(runs, chunk)
            self._stage_chunk(chunk, barrier if first_position is not None else None)
        if first_position is None:
            return None
        # A key of its own: the log cleaner must not replace an earlier claim, which may still come true.
        self.claims += 1
        self.claiming += 1
        return Intent(
            Mode.LIVE, (nonce + self.claims) % (1 << 63), self.history, *first_position,
            leader_epoch=self.staged_epoch, runs=tuple(runs), target_epoch=self.target_epoch,
        )  # fmt: skip

    @property
    def contested(self) -> bool:
        """Appends of this history may still be in flight, of an earlier task or of this one."""
        return self.inherited or self.lost

    def _deviates(self, chunk: Chunk) -> bool:
        return self.contested and chunk.leader_epoch != self.staged_epoch

    def _needs_intent(self, chunk: Chunk) -> bool:
        continues = len(chunk.runs) == 1 and chunk.runs[0].source - self.downstream == self.delta
        return not continues or chunk.leader_epoch != self.staged_epoch

    def _stage_chunk(self, chunk: Chunk, barrier: Any) -> None:
        self.staged_epoch = chunk.leader_epoch
        self.sequence = (self.sequence + chunk.count) % SEQUENCE_MODULUS
        self.ready.append(Staged(chunk, self.downstream, self.sequence, barrier))
        self.downstream += chunk.count
        self.own_end = self.downstream
        self.delta = chunk.copied_end - self.downstream

    def acknowledge(self, staged: Staged) -> None:
        """Account for an append that got the predicted offset."""
        self.acked_sequence, self.live, self.alone = staged.sequence_end, True, False
        self._advance(staged.chunk, staged.base)

    def committed(self, chunk: Chunk, base: int) -> None:
        """Account for a chunk that a committed transaction has copied."""
        self.uncommitted, self.live = self.uncommitted - 1, False
        self._advance(chunk, base)

    def _advance(self, chunk: Chunk, base: int) -> None:
        self.acked_downstream = self.acked_own_end = base + chunk.count
        self.acked_copied_end, self.acked_upstream = chunk.copied_end, chunk.next_source
        self.acked_epoch = chunk.leader_epoch
        self.records += chunk.count
        self.bytes += chunk.size
        self.batches += 1
        self.queued_bytes -= chunk.size
        self.attempts = 0
        if self.settled:
            self._advance_frontier(self.fetch_position)

    def _advance_frontier(self, upstream: int) -> None:
        """Move the frontier past markers and aborted records: nothing before `upstream` is in flight."""
        if upstream > self.acked_upstream:
            self.acked_upstream, self.acked_epoch = upstream, self.fetched_epoch

    def mark(self, nonce: int) -> Mark | None:
        """The mark to write, or None when nothing changed since the last one."""
        position = (self.acked_upstream, self.acked_downstream)
        if self.state is not CopyState.LIVE or position == self.marked:
            return None
        return Mark(
            nonce,
            self.history,
            *position,
            copied_end=self.acked_own_end,
            sequence=self.acked_sequence,
            leader_epoch=self.acked_epoch,
            target_epoch=self.target_epoch,
            live=self.live,
        )

    def confirmed(self, mark: Mark, generation: int) -> None:
        """Note a durable mark, unless the partition was resolved again since it was made.

        :param generation: of the partition when the mark was made
        """
        if generation == self.generation and mark.downstream >= self.marked[1]:
            self.marked = (mark.upstream, mark.downstream)
