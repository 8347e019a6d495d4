"""The map records of one bulk transaction: which records have which offsets, committed together with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.core.runs import extend_runs
from drkit.model import TopicPartition
from drkit.offsets import Intent, MapKey
from drkit.offsets.map_record import Mode
from drkit.wire import Chunk


class Sent(NamedTuple):
    """A chunk in flight inside a transaction; `answer` gives its target offset."""

    partition: PartitionCopy
    generation: int
    chunk: Chunk
    answer: Any

    @property
    def current(self) -> bool:
        """Its partition has not started over since it was taken."""
        return self.generation == self.partition.generation


Placed = tuple[Sent, int]
"""A chunk and the target offset of its first record."""


def intents_of(placed: Sequence[Placed], nonce: int) -> list[tuple[MapKey, Intent]]:
    """One intent per stretch of the target's log that holds only records of this flow."""
    out: list[tuple[MapKey, Intent]] = []
    by_partition: dict[MapKey, list[Placed]] = {}
    for item in placed:
        by_partition.setdefault(item[0].partition.key, []).append(item)
    for key, items in by_partition.items():
        end = items[0][0].partition.acked_own_end
        for stretch in _stretches(items):
            out.append((key, _intent(stretch, end, nonce)))
            end = stretch[-1][1] + stretch[-1][0].chunk.count
    return out


def acknowledge(placed: Iterable[Placed]) -> None:
    """The transaction is committed."""
    for sent, base in placed:
        if sent.current:
            sent.partition.committed(sent.chunk, base)


class ForeignOffsets(NamedTuple):
    """Target offsets between two chunks of this flow that another writer took."""

    partition: PartitionCopy
    offset: int
    offsets: int


def gaps_of(placed: Sequence[Placed], ends: dict[TopicPartition, int]) -> list[ForeignOffsets]:
    """Where others wrote between the chunks of a committed transaction, or since the one before it.

    The transaction's own marker takes one offset, after its last chunk and nowhere else.

    :param ends: target offset that the next chunk of a partition must get; moved past this transaction
    """
    found: list[ForeignOffsets] = []
    for sent, base in placed:
        wanted = ends.get(sent.partition.target, base)
        if base > wanted:
            found.append(ForeignOffsets(sent.partition, wanted, base - wanted))
        ends[sent.partition.target] = base + sent.chunk.count
    for target in {sent.partition.target for sent, _ in placed}:
        ends[target] += 1
    return found


def _stretches(items: list[Placed]) -> list[list[Placed]]:
    stretches: list[list[Placed]] = []
    end = -1
    for sent, base in items:
        if base != end:
            stretches.append([])
        stretches[-1].append((sent, base))
        end = base + sent.chunk.count
    return stretches


def _intent(stretch: list[Placed], previous_end: int, nonce: int) -> Intent:
    runs: list[tuple[int, int]] = []
    for sent, _ in stretch:
        extend_runs(runs, sent.chunk)
    p = stretch[0][0].partition
    return Intent(
        mode=Mode.BULK,
        nonce=nonce,
        history=p.history,
        base_sequence=p.acked_sequence,
        downstream=stretch[0][1],
        previous_end=previous_end,
        leader_epoch=stretch[-1][0].chunk.leader_epoch,
        runs=tuple(runs),
        target_epoch=p.target_epoch,
    )
