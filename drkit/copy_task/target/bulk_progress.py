"""What one bulk transaction has written: its map records, committed together with it, and what it missed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drkit.copy_task.core.context import TaskContext
from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.core.runs import extend_runs
from drkit.kafka.requests import metadata
from drkit.model import TopicPartition
from drkit.offsets import Intent, MapKey
from drkit.offsets.map_record import Mode
from drkit.wire import Chunk

GAP: Final = "another producer took offsets of the target"


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


async def moved(task: TaskContext, partitions: Collection[PartitionCopy]) -> bool:
    """Whether a partition of a transaction has another leader than the one it was settled with.

    Appends of transactions are not compared with the log: after an unclean election they would take the
    offsets of lost records.
    """
    topics = await metadata(task.links.target, sorted({p.target.topic for p in partitions}))
    return any(
        (leader := topics[p.target.topic].leaders.get(p.target.partition)) is None
        or leader.epoch != p.target_epoch
        for p in partitions
    )


def gaps_of(
    placed: Sequence[Placed], known: Mapping[TopicPartition, int]
) -> tuple[list[ForeignOffsets], dict[TopicPartition, int]]:
    """Where others wrote between the chunks of a transaction, or since the one before it.

    The transaction's own marker takes one offset, after its last chunk and nowhere else.

    :param known: target offset that the next chunk of a partition must get
    :returns: also what is known once the transaction is committed
    """
    found: list[ForeignOffsets] = []
    ends = dict(known)
    for sent, base in placed:
        wanted = ends.get(sent.partition.target, base)
        if base > wanted:
            found.append(ForeignOffsets(sent.partition, wanted, base - wanted))
        ends[sent.partition.target] = base + sent.chunk.count
    for target in {sent.partition.target for sent, _ in placed}:
        ends[target] += 1
    return found, ends


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
